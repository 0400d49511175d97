"""Readers of CSV, NPY, NPZ and images, and the data sets that come with the package."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from helpers import told
from PIL import Image

import pullback as pb
from pullback.data import read_csv, read_image, read_npy, read_npz
from pullback.errors import ArgumentError, DamagedFile, FileError, MissingFile

TABLE = """\
name,age,size,member,note
Ada,36,1.65,true,"first, of all"
Alan,41,1.80,False,
"Grace
Hopper",85,NA,TRUE,two lines

Kurt,71,-1e3,false,last
"""


@pytest.fixture
def table(tmp_path):
    def write(text, name="t.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return path

    return write


def test_columns_have_the_narrowest_dtype(table):
    found = read_csv(table(TABLE))
    assert list(found) == ["name", "age", "size", "member", "note"]
    assert found["name"].tolist() == ["Ada", "Alan", "Grace\nHopper", "Kurt"]
    assert found["age"].dtype == np.int64 and found["age"].tolist() == [36, 41, 85, 71]
    assert found["size"].dtype == np.float64 and math.isnan(found["size"][2])
    assert found["member"].tolist() == [True, False, True, False]
    assert found["note"].tolist() == ["first, of all", "", "two lines", "last"]


@pytest.mark.parametrize(
    ("text", "options", "wanted"),
    [
        ("1;2\r\n3;4\r\n", {"delimiter": ";", "header": False}, {"0": [1, 3], "1": [2, 4]}),
        ("\ufeffa,b\n1, 2\n", {}, {"a": [1], "b": [2]}),
        ("a,b\n", {}, {"a": [], "b": []}),
        ("a\n9223372036854775808\n", {}, {"a": [9223372036854775808.0]}),
        ("a,b\n1,x\n", {"columns": ["b"]}, {"b": ["x"]}),
        ("a\n1\n-\n", {"missing": ["-"], "fill": {"a": 7}}, {"a": [1, 7]}),
        ("a\ntrue\n\"\"\n", {}, {"a": ["true", ""]}),
        ("a\n0x1\n1_000\n", {"dtypes": str}, {"a": ["0x1", "1_000"]}),
        ("a\n1_000\n2\n", {}, {"a": ["1_000", "2"]}),
        ("a,b\n1,2\n", {"dtypes": {"a": "bool"}, "fill": {}, "missing": ["1"]}, None),
        ("a,b\n1,2\n", {"dtypes": "float32"}, {"a": [1.0], "b": [2.0]}),
        ("a\n1+2j\n", {"dtypes": "complex64"}, {"a": [1 + 2j]}),
        ("a\n?\n2\n", {"dtypes": "bfloat16", "fill": {"a": 1}}, {"a": [1, 2]}),
    ],
)  # fmt: skip
def test_options_of_tables(table, text, options, wanted):
    if wanted is None:
        with told(DamagedFile, ValueError, "t.csv:2: column 'a': a value is missing", "fill="):
            read_csv(table(text), **options)
        return
    found = read_csv(table(text), **options)
    assert {name: column.tolist() for name, column in found.items()} == wanted
    if isinstance(options.get("dtypes"), str):
        assert all(c.dtype == pb.tensor(0, options["dtypes"]).dtype.numpy for c in found.values())


BAD_TABLES = {
    "fields": ("a,b\n1,2\n\n3\n", {}, DamagedFile, "t.csv:4: expected 2 fields, got 1"),
    "value": ("a\n1\nx\n", {"dtypes": {"a": int}}, DamagedFile,
              "t.csv:3: column 'a': 'x' is not an integer"),
    "number": ("a\nx\n", {"dtypes": "f32"}, DamagedFile, "'x' is not a number"),
    "flag": ("a\n2\n", {"dtypes": bool}, DamagedFile, "'2' is not true or false"),
    "range": ("a\n300\n", {"dtypes": "uint8"}, DamagedFile, "does not fit into uint8"),
    "quote": ('a\n"x\n', {}, DamagedFile, "t.csv:2: unexpected end of data"),
    "empty": ("\n", {}, DamagedFile, "has no rows"),
    "twice": ("a,a\n", {}, DamagedFile, "t.csv:1: two columns are named 'a'"),
    "column": ("a\n1\n", {"columns": ["b"]}, ArgumentError, "no column 'b': it has 'a'"),
    "dtype": ("a\n1\n", {"dtypes": {"b": int}}, ArgumentError, "no column 'b'"),
    "delimiter": ("a\n1\n", {"delimiter": ";;"}, ArgumentError, "one character"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_TABLES)
def test_errors_name_the_file_and_the_line(name, table):
    text, options, error, words = BAD_TABLES[name]
    path = table(text)
    with told(error, ValueError, "read_csv", words):
        read_csv(path, **options)


def test_files_that_cannot_be_read(table, tmp_path):
    with told(MissingFile, FileNotFoundError, "there is no file", "absent.csv"):
        read_csv(tmp_path / "absent.csv")
    with told(FileError, OSError, "cannot read"):
        read_csv(tmp_path)
    with told(DamagedFile, ValueError, "not a text file in UTF-8"):
        read_csv(table("a\nü\n", encoding="latin-1"))


def test_arrays_in_files(tmp_path):
    x = np.arange(6).reshape(2, 3)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "xy.npz", x=x, y=x > 2)
    assert read_npy(tmp_path / "x.npy").tolist() == x.tolist()
    assert isinstance(read_npy(tmp_path / "x.npy", mmap=True), np.memmap)
    found = read_npz(tmp_path / "xy.npz")
    assert list(found) == ["x", "y"] and found["y"].dtype == bool
    np.save(tmp_path / "o.npy", np.array([[]], object), allow_pickle=True)
    np.savez(tmp_path / "o.npz", o=np.array([{}], object))
    whole = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(whole[:-5])
    (tmp_path / "noise.npy").write_bytes(b"\x80\x04noise")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "xy.npz").read_bytes()[:-30])
    for reader, name, words in (
        (read_npy, "o.npy", "never loaded"), (read_npz, "o.npz", "never loaded"),
        (read_npy, "cut.npy", "cut.npy is damaged"), (read_npy, "noise.npy", "never loaded"),
        (read_npz, "cut.npz", "cut.npz"), (read_npy, "xy.npz", "read_npz"),
        (read_npz, "x.npy", "read_npy"),
    ):  # fmt: skip
        with told(DamagedFile, ValueError, words):
            reader(tmp_path / name)
    for reader in (read_npy, read_npz):
        with told(MissingFile, OSError, "there is no file"):
            reader(tmp_path / "absent")


def test_images_need_pillow(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with told(ArgumentError, TypeError, "pip install pullback[images]"):
        read_image("x.png")
    with told(ArgumentError, TypeError, "pip install pullback[images]"):
        pb.data.ImageFolder(tmp_path)


def test_images_and_folders_of_them(tmp_path):
    red = np.zeros((4, 6, 3), np.uint8)
    red[:, :, 0] = 255
    for name, array in (("b/1.png", red), ("b/deep/2.PNG", red), ("a/3.png", 255 - red)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(array).save(tmp_path / name)
    (tmp_path / "a" / "notes.txt").write_text("no image")
    path = tmp_path / "b" / "1.png"
    assert np.array_equal(read_image(path), red)
    assert read_image(path, "L").shape == (4, 6, 1) and read_image(path, "RGBA").shape == (4, 6, 4)
    assert read_image(path, size=(2, 3)).tolist() == red[:2, :3].tolist()
    folder = pb.data.ImageFolder(tmp_path, size=(2, 2))
    assert folder.classes == ("a", "b") and [label for _, label in folder] == [0, 1, 1]
    images, labels = next(iter(pb.data.DataLoader(folder, 3)))
    assert (
        images.shape == (3, 2, 2, 3) and images.dtype is pb.uint8 and labels.tolist() == [0, 1, 1]
    )
    path.write_bytes(b"no image")
    with told(DamagedFile, ValueError, "is damaged or not an image"):
        read_image(path)
    with told(MissingFile, OSError, "there is no file"):
        read_image(tmp_path / "absent.png")
    with told(ArgumentError, ValueError, "mode must be one of"):
        read_image(path, "CMYK")
    with told(MissingFile, OSError, "one folder for each class"):
        pb.data.ImageFolder(tmp_path / "a")
    with told(MissingFile, OSError, "there is no folder"):
        pb.data.ImageFolder(tmp_path / "c")


def test_the_data_sets():
    images, labels = pb.data.digits()
    assert images.dtype == np.float32 and (images.min(), images.max()) == (0, 1)
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    features, labels = pb.data.wine()
    assert np.bincount(labels).tolist() == [59, 71, 48] and features.dtype == np.float32
    assert len(pb.data.wine().names) == 13 and round(float(features[:, 0].mean()), 3) == 13.001
    text = pb.data.text()
    assert text.isascii() and "`Curiouser and curiouser!' cried Alice" in text
    with told(ArgumentError, ValueError, "the only text is 'alice'"):
        pb.data.text("emma")
