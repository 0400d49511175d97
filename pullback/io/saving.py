"""`pb.save`: trees as safetensors files, written completely or not at all."""

from __future__ import annotations

import os
from typing import Any

from pullback.engines.processes import current_processes
from pullback.graph.argument_checks import with_argument_checks
from pullback.io.several_processes import SeveralProcessesSave, finish_with_several_processes
from pullback.io.snapshot import save_snapshot, take_snapshot


@with_argument_checks
def save(path: str | os.PathLike, tree: Any) -> None:
    """Write a tree of tensors, arrays, numbers and strings to a file in the safetensors format.

    The file is replaced completely or not at all, also if the process is killed. It holds no
    pickles; its header has the structure of the tree and a checksum of every tensor, which has a
    name such as `layers.0.w`. Among several processes all call this: each writes the shards that
    it has, to a file of its own beside `path`.

    >>> import pullback as pb, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> pb.save(path, {"layers": [{"w": pb.ones((2, 3)), "b": pb.zeros(3)}], "step": 7})
    >>> pb.load(path)["step"]
    7
    """
    snapshot = take_snapshot("save", tree)
    name = os.path.realpath(os.fspath(path))
    if current_processes().count == 1:
        save_snapshot(name, snapshot)
        return
    shared = SeveralProcessesSave.begin(name, snapshot, {})
    finish_with_several_processes("save", name, shared.write, shared)
