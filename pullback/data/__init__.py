"""Data for training: datasets, a loader of batches, files, tokenizers and small real data sets.

>>> images, labels = pb.data.digits()
>>> train = pb.data.ArrayDataset(images, labels)
>>> loader = pb.data.DataLoader(train, batch_size=64, shuffle=True, key=pb.random.key(0))
>>> x, y = next(iter(loader))
>>> x.shape, y.shape
((64, 8, 8), (64,))

Worker processes import this package, so nothing here starts an engine.
"""

from pullback.data.array_dataset import ArrayDataset
from pullback.data.as_dataset import as_dataset
from pullback.data.bundled import Digits, Wine, digits, text, wine
from pullback.data.collating import collate
from pullback.data.combining import concat, zip
from pullback.data.csv_files import read_csv
from pullback.data.dataset import Dataset
from pullback.data.file_dataset import FileDataset
from pullback.data.image_files import ImageFolder, read_image
from pullback.data.iterables import IterableDataset
from pullback.data.loader import DataLoader
from pullback.data.npy_files import read_npy, read_npz
from pullback.data.random_split import random_split
from pullback.data.tokenizers import ByteTokenizer, CharTokenizer, TokenWindows
from pullback.graph.boundary import publish

__all__ = [
    "ArrayDataset", "ByteTokenizer", "CharTokenizer", "DataLoader", "Dataset", "Digits",
    "FileDataset", "ImageFolder", "IterableDataset", "TokenWindows", "Wine", "as_dataset",
    "collate", "concat", "digits", "random_split", "read_csv", "read_image", "read_npy", "read_npz",
    "text", "wine", "zip",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


publish(__name__)
