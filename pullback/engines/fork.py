"""Forked processes: XLA's threads do not survive a fork, so a child would wait for them forever.

A child may read what was computed before, and compute with the reference engine.
"""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn

from pullback.errors import ForkError

depth = 0  # the number of forks between this process and the one that imported pullback
lost_xla = False  # whether this process was forked from one that had started XLA
DATA_WORKER = "pullback data worker"  # how the names of a data loader's processes begin


def refuse_after_fork(what: str) -> NoReturn:
    """Raise the error for an action that needs threads of the parent process."""
    raise ForkError(
        f"{what}: this process was forked from one that computes with XLA, whose threads exist "
        "only there",
        hint='Start workers with multiprocessing.get_context("spawn"), or compute in them inside '
        '`with\npb.config(engine="reference"):`. Values computed before the fork can be read.',
    )


def refuse_forked_data_worker() -> None:
    """Raise if this is a worker process of a data loader, which must not start XLA.

    Each worker would take a share of the processor's threads, or a GPU's memory. The name is known
    from the beginning of the process, also while it imports the user's main module.
    """
    running = sys.modules.get("multiprocessing.process")
    if running is not None and running.current_process().name.startswith(DATA_WORKER):
        raise ForkError(
            "a worker process of a DataLoader does not compute with XLA",
            hint="Return NumPy arrays from the dataset and compute with the batches, or compute in "
            'the dataset\ninside `with pb.config(engine="reference"):`. In the main module, start '
            'training under\n`if __name__ == "__main__":`, because workers import it.',
        )


def lose_xla_after_fork() -> None:
    """Note, in a child, that XLA cannot be used."""
    global lost_xla
    lost_xla = True


def hold_during_fork(lock: Any) -> None:
    """Hold a lock during forks: a child must not inherit it locked by a thread that it lacks."""
    if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
        os.register_at_fork(
            before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
        )


def in_forked_child(action: Any) -> None:
    """Call `action` in every process that is forked from this one."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=action)


def _count_forks() -> None:
    global depth
    depth += 1


in_forked_child(_count_forks)
