"""Several processes save together, each its own shards, and others restore them elsewhere."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, NamedTuple

import numpy as np
import pytest
from devices import Grid
from launching import Launched
from saving_cases import ARRAY

import pullback as pb
from pullback.errors import DamagedFile
from pullback.io.container import opened_container
from pullback.io.several_processes import is_part_from_several_processes


@dataclasses.dataclass
class Layer:
    w: Any
    b: Any


class Point(NamedTuple):
    x: Any
    y: Any


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    pb.save(folder / "classes.safetensors", Layer(pb.ones(2), Point(1, 2)))
    return folder, *Launched("saving_cases.py", 2, "together", folder, devices=2).finish()


def entries(path):
    with opened_container(str(path)) as file:
        return file.entries


def test_each_process_writes_its_shards(saved):
    folder, status, lines, errors = saved
    assert status == 0, errors
    for k in range(2):
        classes, *said = lines[k]
        assert classes == "dict ['b', 'w'] Point 2"  # where they are not known
        assert said[0] == "sum 2555.0" and said[-1] == "steps [2, 3]", lines
        assert len(said) == 5
        assert said[1].startswith("FileError") and "No space left" in said[1]
        assert said[2].startswith("FileError") and "step 4 was not written" in said[2]
        assert said[3].startswith("ProcessMismatch processes disagree about what is saved")
    names = sorted(os.listdir(folder))
    parts = [n for n in names if is_part_from_several_processes(n, "model.safetensors")]
    assert [n[-6:] for n in parts] == ["0-of-2", "1-of-2"] and len(names) == 5
    written = [entries(folder / n) for n in parts]
    for name, count in (("rows", 4), ("both", 4), ("some", 2), ("same", 1)):
        sizes = [[e.stop - e.start for n, e in f.items() if n.startswith(name)] for f in written]
        # No shard is written twice, and no process writes a whole tensor that is in shards
        assert sum(map(len, sizes)) == count
        assert sum(map(sum, sizes)) == ARRAY.nbytes * (2 if name == "same" else 1)
        assert name == "same" or all(sum(s) < ARRAY.nbytes for s in sizes)


def test_what_they_saved_is_restored_on_one_device_and_another_mesh(saved):
    folder = saved[0]
    found = pb.load(folder / "model.safetensors")
    for name in ("rows", "both", "some"):
        assert found[name].sharding is None and (found[name].numpy() == ARRAY + 2).all()
    assert (found["same"].numpy() == ARRAY + 2 + 1j).all() and found["none"].shape == (0, 3)
    assert found["step"] == 2 and found["key"].tolist() == [0, 2]
    with pb.config(engine="reference"):
        like = pb.zeros((10, 7), dtype=pb.float64).shard(Grid(x=3), pb.P(None, "x"))
        found = pb.load(folder / "model.safetensors", like={"w": like}, keys={"w": "both"})
        assert found["w"].sharding is like.sharding and (found["w"].numpy() == ARRAY + 2).all()
    checkpoints = pb.io.Checkpointer(folder / "run")
    assert checkpoints.steps() == [2, 3]
    assert (checkpoints.restore()["rows"].numpy() == ARRAY + 3).all()


def test_parts_must_be_there_and_belong_together(saved, tmp_path):
    folder = saved[0]
    whole = (folder / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole)
    with pytest.raises(DamagedFile, match=r"its part model\.safetensors\..*0-of-2 is missing"):
        pb.load(tmp_path / "model.safetensors")
    names = [
        n
        for n in sorted(os.listdir(folder))
        if is_part_from_several_processes(n, "model.safetensors")
    ]
    for name in names:
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    assert pb.load(tmp_path / "model.safetensors")["step"] == 2
    with pytest.raises(DamagedFile, match="it is one of several files"):
        pb.load(tmp_path / names[0])
    data = bytearray((tmp_path / names[1]).read_bytes())
    data[-1] ^= 1
    (tmp_path / names[1]).write_bytes(data)
    with pytest.raises(DamagedFile, match=r"1-of-2 is damaged.*the tensor '.*' does not have"):
        pb.load(tmp_path / "model.safetensors")
    pb.save(tmp_path / names[1], {"x": np.zeros(2)})
    with pytest.raises(DamagedFile, match=r"it does not belong to model\.safetensors"):
        pb.load(tmp_path / "model.safetensors")
