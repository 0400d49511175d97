"""Small real data sets that come with the package; `files/README.md` tells where they are from."""

from __future__ import annotations

import gzip
from importlib import resources
from typing import NamedTuple

import numpy as np

from pullback.data.csv_files import parse_csv
from pullback.errors import ArgumentError

_FILES = resources.files("pullback.data") / "files"
_MEASUREMENTS = (
    "alcohol", "malic_acid", "ash", "alcalinity_of_ash", "magnesium", "total_phenols",
    "flavanoids", "nonflavanoid_phenols", "proanthocyanins", "color_intensity", "hue",
    "od280_od315", "proline",
)  # fmt: skip


class Digits(NamedTuple):
    """Images f32[1797, 8, 8] of handwritten digits, from 0 to 1, and labels i64[1797]."""

    images: np.ndarray
    labels: np.ndarray


class Wine(NamedTuple):
    """Measurements f32[178, 13] of wines, named by `names`, and cultivars i64[178] from 0 to 2."""

    features: np.ndarray
    labels: np.ndarray

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the measurements."""
        return _MEASUREMENTS


def digits() -> Digits:
    """Return 1,797 images of handwritten digits with their labels, as a named tuple.

    >>> images, labels = pb.data.digits()
    >>> images.shape, images.dtype, labels[:5].tolist()
    ((1797, 8, 8), dtype('float32'), [0, 1, 2, 3, 4])
    """
    with (_FILES / "digits.npz").open("rb") as file, np.load(file, allow_pickle=False) as data:
        images, labels = data["images"], data["labels"]
    return Digits(images.astype(np.float32) / np.float32(16), labels.astype(np.int64))


def text(name: str = "alice") -> str:
    """Return a text in the public domain: *Alice's Adventures in Wonderland* by Lewis Carroll.

    >>> pb.data.text().splitlines()[10]
    '  Alice was beginning to get very tired of sitting by her sister'
    >>> len(pb.data.text()), len(set(pb.data.text()))
    (148410, 70)
    """
    if not isinstance(name, str) or name != "alice":
        raise ArgumentError(f"the only text is 'alice', got {name!r}", op="data.text")
    return gzip.decompress((_FILES / "alice.txt.gz").read_bytes()).decode("ascii")


def wine() -> Wine:
    """Return 13 measurements of 178 wines of three cultivars, as a named tuple.

    >>> import numpy as np
    >>> features, labels = pb.data.wine()
    >>> features.shape, np.bincount(labels).tolist(), pb.data.wine().names[0]
    ((178, 13), [59, 71, 48], 'alcohol')
    """
    lines = (_FILES / "wine.csv").read_text(encoding="ascii").splitlines()
    table = parse_csv("data.wine", "wine.csv", lines)
    features = np.stack([table[name] for name in _MEASUREMENTS], 1)
    return Wine(features.astype(np.float32), table["cultivar"])
