"""Files that are replaced completely or not at all.

The new content is written to a temporary file beside the old one, flushed to the disk, and renamed.
A process that is killed leaves at most a temporary file. The writer holds a lock on it, which
the system releases when the process ends, so the next writer can tell what was left behind.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from pullback.errors import FileError, MissingFile

_SUFFIX = ".tmp"
_LONGEST_NAME = 200  # of the part of a file's name that is in the name of its temporary file
_HINTS = {
    errno.ENOSPC: "Free some space, or save elsewhere. What was saved before is unchanged.",
    errno.EDQUOT: "Free some space, or save elsewhere. What was saved before is unchanged.",
    errno.EACCES: "Save into a folder that you may write to.",
    errno.EROFS: "Save into a folder that you may write to.",
    errno.EISDIR: "Give the path of a file.",
}


@contextmanager
def atomic_file_errors(op: str, path: str) -> Iterator[None]:
    """Raise errors of the system with the name of the file and what to do."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        if error.errno == errno.ENOENT:
            missing = MissingFile(f"{op}: {path} does not exist")
            if op == "save":
                missing.hint = "Make the folder first: os.makedirs(folder, exist_ok=True)."
            raise missing from None
        what = "read" if op in ("load", "restore") else "written"
        made = FileError(f"{op}: {path} cannot be {what}: {why}", hint=_HINTS.get(error.errno or 0))
        made.errno, made.strerror = error.errno, why
        raise made from None


def atomic_prefix(path: str) -> str:
    """Return how the names of temporary files for a file begin."""
    return f".{os.path.basename(path)[:_LONGEST_NAME]}."


@contextmanager
def atomic_replacing(path: str, op: str = "save") -> Iterator[BinaryIO]:
    """Open a file that takes the place of `path` if the block ends without an error."""
    path = os.path.realpath(path)  # a link stays one
    folder = os.path.dirname(path)
    with atomic_file_errors(op, path):
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, "", path)
        remove_atomic_leftovers(folder, atomic_prefix(path))
        prefix = atomic_prefix(path)
        temporary = os.path.join(folder, f"{prefix}{os.getpid()}-{secrets.token_hex(4)}{_SUFFIX}")
        try:
            with open(temporary, "xb") as file:
                with contextlib.suppress(OSError):  # not every file system has locks
                    fcntl.flock(file, fcntl.LOCK_EX)
                yield file
                file.flush()
                os.fsync(file.fileno())
                os.replace(temporary, path)
            sync_atomic_folder(folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise


def sync_atomic_folder(folder: str) -> None:
    """Return when the names of the files in a folder are on the disk."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system without folders' sync
            raise
    finally:
        os.close(opened)


def remove_atomic_leftovers(folder: str, prefix: str) -> None:
    """Remove temporary files that no process is writing any more."""
    with contextlib.suppress(OSError):
        names = [n for n in os.listdir(folder) if n.startswith(prefix) and n.endswith(_SUFFIX)]
        for name in names:
            _remove_unlocked_atomic(os.path.join(folder, name))


def _remove_unlocked_atomic(path: str) -> None:
    """Remove a file unless the process that its name tells lives, or another one has locked it."""
    number = path.rsplit(".", 2)[-2].partition("-")[0]
    if number.isdecimal() and int(number) and os.path.exists(f"/proc/{number}"):
        return
    with contextlib.suppress(OSError), open(path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)
