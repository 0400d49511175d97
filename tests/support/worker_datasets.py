"""Datasets for worker processes, which import this module: it is light, and has no tests."""

from __future__ import annotations

import json
import os
import sys
import time

import numpy as np

import pullback as pb

ERROR, ENGINE, REFERENCE, KILL = 3, 7, 11, 15  # the examples that something happens at


class Rows(pb.data.Dataset):
    """Rows of numbers."""

    def __init__(self, count: int = 24) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict:
        return {"row": np.full(3, index, np.float32), "index": index, "name": f"row {index}"}


class BadRows(Rows):
    """Rows that cannot be made, for several reasons."""

    def __getitem__(self, index: int) -> dict:
        if index == ERROR:
            raise KeyError("no such row")
        if index == ENGINE:
            (pb.ones(3) * 2).numpy()
        if index == REFERENCE:
            with pb.config(engine="reference"):
                assert (pb.ones(3) * 2).tolist() == [2, 2, 2]
        if index == KILL:
            time.sleep(0.5)  # a thread sends the answer before this one, which would be lost
            os.kill(os.getpid(), 9)
        return super().__getitem__(index)


class Absent(Rows):
    """Rows that a worker does not have."""

    def __setstate__(self, state: dict) -> None:
        raise OSError("the file is on another machine")


class Slow(Rows):
    def __getitem__(self, index: int) -> dict:
        time.sleep(0.02)
        return super().__getitem__(index)


def numbers():
    yield from range(11)


def doubled(n: int) -> int:
    return 2 * n


def main() -> None:
    """Print the process numbers of workers, and read batches until interrupted."""
    loader = pb.data.DataLoader(Slow(1000), 2, workers=1)
    for i, _ in enumerate(loader):
        if not i:
            print(json.dumps([w._process.pid for w in loader._source.pool._workers]), flush=True)


if __name__ == "__main__":
    sys.exit(main())
