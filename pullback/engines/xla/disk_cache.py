"""A cache of executables on disk: one file for each key, which later processes load.

A file is written under a temporary name and renamed, so a reader sees all of it or nothing. Nothing
is trusted: each file repeats its key and has a checksum over key and content; a file that does not
match is deleted, and its program compiled again. So writes need not be flushed to the disk, and
take about 0.1 ms. Errors of the disk never reach the user's program.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pullback.engines.environment import environment_variable

FORMAT = 1
_MAGIC = b"PULLBACK"
_HEADER = struct.Struct("<8sI32sQ32s")  # magic, format, key, length, checksum
_ENTRY, _TEMPORARY = ".xla", ".tmp"
_SIZE = 2 * 2**30
_TOUCH_AFTER = 3600.0  # seconds between two updates of the time when an entry was used
_ABANDONED_AFTER = 3600.0  # an unfinished file this old belongs to a process that was killed
# The fraction of the bound that is written between two scans of the directory.
_SLACK = 64
_ADVICE = "PULLBACK_CACHE_DIR sets another directory, PULLBACK_CACHE=0 turns the cache off"


def disk_key(parts: Iterable[bytes]) -> bytes:
    """Return the key of an executable: a hash over everything that it depends on."""
    digest = hashlib.sha256(b"%d" % FORMAT)
    for part in parts:
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return digest.digest()


class DiskCache:
    """A private directory of executables, bounded in bytes; disabled without a directory."""

    def __init__(self, directory: str | None, limit: int = _SIZE) -> None:
        self.directory = os.path.abspath(directory or ".")
        self.limit = limit
        self.on = bool(directory and limit)
        self.checked = self._warned = self._unwritable = False

    def read(self, key: bytes) -> bytes | None:
        """Return the executable of a key; None if there is none that can be trusted."""
        if not self._usable():
            return None
        path = self._path(key)
        try:
            with open(os.open(path, os.O_RDONLY | _FLAGS), "rb") as file:
                status = os.fstat(file.fileno())
                if not self._is_ours(path, status):
                    return None
                content = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(f"reading {path} failed ({error.strerror})")
            return None
        payload = _unwrapped_disk_entry(key, content)
        if payload is None:
            self.forget(key)
        elif time.time() - status.st_mtime > _TOUCH_AFTER:
            _quietly_on_disk(os.utime, path)  # the least recently used are removed first
        return payload

    def write(self, key: bytes, payload: bytes) -> None:
        """Store an executable, unless the disk fails."""
        header = _HEADER.pack(_MAGIC, FORMAT, key, len(payload), _disk_checksum(key, payload))
        content = header + payload
        if self._unwritable or len(content) > self.limit or not self._usable():
            return
        try:
            self._put(self._path(key), content)
        except OSError as error:
            self._unwritable = True
            self._warn(f"writing to {self.directory} failed ({error.strerror})")
            return
        # Keys are evenly distributed: on average this scans the directory for each 1/64 of it.
        if int.from_bytes(key[:8], "little") * self.limit < len(content) * _SLACK << 64:
            self.make_room()

    def forget(self, key: bytes) -> None:
        """Remove an entry."""
        _quietly_on_disk(os.unlink, self._path(key))

    def _path(self, key: bytes) -> str:
        return os.path.join(self.directory, key.hex() + _ENTRY)

    def _put(self, path: str, content: bytes) -> None:
        name = f"{os.getpid()}-{os.urandom(8).hex()}{_TEMPORARY}"
        temporary = os.path.join(self.directory, name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS
        try:
            handle = os.open(temporary, flags, 0o600)
        except FileNotFoundError:  # the directory was removed
            os.makedirs(self.directory, 0o700, exist_ok=True)
            handle = os.open(temporary, flags, 0o600)
        try:
            with open(handle, "wb") as file:
                file.write(content)
            os.replace(temporary, path)
        except BaseException:
            _quietly_on_disk(os.unlink, temporary)
            raise

    def make_room(self) -> None:
        """Remove files that killed processes left, and the least recently used beyond the bound."""
        now, total, entries = time.time(), 0, []
        for found, status in self._files():
            if found.name.endswith(_ENTRY):
                entries.append((status.st_mtime, found.name, found.path, status.st_size))
            elif now - status.st_mtime > _ABANDONED_AFTER:
                _quietly_on_disk(os.unlink, found.path)
                continue
            total += status.st_size
        for _, _, path, size in sorted(entries):
            if total <= self.limit:
                break
            _quietly_on_disk(os.unlink, path)
            total -= size

    def used(self) -> int:
        """Return the number of bytes on disk."""
        return sum(status.st_size for _, status in self._files())

    def clear(self) -> None:
        """Remove every entry."""
        for found, _ in self._files():
            _quietly_on_disk(os.unlink, found.path)

    def _files(self) -> Iterator[tuple[os.DirEntry, os.stat_result]]:
        """Iterate over the files of the cache; others are not counted or removed."""
        if not self._usable():
            return
        try:
            with os.scandir(self.directory) as found:
                for entry in found:
                    if entry.name.endswith((_ENTRY, _TEMPORARY)):
                        try:
                            yield entry, entry.stat(follow_symlinks=False)
                        except OSError:  # removed by another process
                            continue
        except OSError:
            return

    def _usable(self) -> bool:
        """Whether there is a directory that nobody else can write to; create a missing one."""
        if self.on and not self.checked:
            try:
                os.makedirs(self.directory, 0o700, exist_ok=True)
                self.checked = self._is_ours(self.directory, os.stat(self.directory))
            except OSError as error:
                self._warn(f"there is no directory {self.directory} ({error.strerror})")
                self.on = False
        return self.on

    def _is_ours(self, path: str, status: os.stat_result) -> bool:
        """Turn the cache off if another user may have written a file: its code must not run."""
        if not hasattr(os, "geteuid"):
            return True
        if status.st_uid != os.geteuid():
            self._warn(f"{path} belongs to another user and is not used")
        elif status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            self._warn(f"{path} can be written to by others and is not used; `chmod go-w` it")
        else:
            return True
        self.on = False
        return False

    def _warn(self, what: str) -> None:
        """Log one warning, once."""
        if not self._warned:
            import logging  # needed only here, and slow to load

            self._warned = True
            message = "pullback: the cache of compiled programs: %s. %s."
            logging.getLogger("pullback").warning(message, what, _ADVICE)


_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def _quietly_on_disk(action: Callable[[str], Any], path: str) -> None:
    with contextlib.suppress(OSError):
        action(path)


def _disk_checksum(key: bytes, payload: bytes) -> bytes:
    digest = hashlib.sha256(key)
    digest.update(payload)
    return digest.digest()


def _unwrapped_disk_entry(key: bytes, content: bytes) -> bytes | None:
    """Return the payload of a file, if it is complete, of this format, and of this key."""
    if len(content) < _HEADER.size:
        return None
    magic, version, owner, length, checksum = _HEADER.unpack_from(content)
    payload = content[_HEADER.size :]
    if (magic, version, owner, length) != (_MAGIC, FORMAT, key, len(payload)):
        return None
    return payload if checksum == _disk_checksum(key, payload) else None


def _disk_cache_from_environment() -> DiskCache:
    if not environment_variable("PULLBACK_CACHE", True):
        return DiskCache(None)
    limit = environment_variable("PULLBACK_CACHE_SIZE", _SIZE)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    default = os.path.join(base, "pullback") if os.path.isabs(base) else None  # there is no home
    return DiskCache(environment_variable("PULLBACK_CACHE_DIR", default), limit)


_current: DiskCache | None = None


def disk_cache() -> DiskCache:
    """Return the cache of this process, configured by the environment at first use."""
    global _current
    if _current is None:
        _current = _disk_cache_from_environment()
    return _current


def use_disk_cache(cache: DiskCache | None) -> None:
    """Use another cache; None restores the one that the environment configures."""
    global _current
    _current = cache
