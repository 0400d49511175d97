"""Values and programs on several devices: one part on each, one program for all.

XLA gets the program of one device, with explicit collectives, as one replica for each device.
(Partitions, its other form, need its own partitioner in jaxlib 0.10 to 0.12.)
"""

from __future__ import annotations

import contextlib
import threading
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.engines.xla.bindings import _jax
from pullback.engines.xla.executable import Executable
from pullback.engines.xla.jax_arrays import (
    JaxArrayOnDevice,
    JaxArrayOnDevices,
    jax_aval_of,
    jax_device_list,
)
from pullback.errors import EngineError
from pullback.graph.types import Type

if TYPE_CHECKING:
    from pullback.engines.xla.client import Client
    from pullback.engines.xla.compiler_options import Flags


class ShardedValue:
    """A value of which every device of a group has a part; all parts have the same type."""

    __slots__ = ("array", "checksum", "group", "type")

    def __init__(
        self, group: ShardedDeviceGroup, type: Type, array: Any, checksum: int | None = None
    ) -> None:
        self.group, self.type, self.array = group, type, array
        # of the whole value on the host that it was cut from, which all processes must share
        self.checksum = checksum

    def is_ready(self) -> bool:
        """Whether the parts in this process have been computed."""
        return self.array.is_ready()

    def wait(self) -> None:
        """Return when the parts in this process have been computed."""
        self.group.client.wait(self.array, self.group)

    block_until_ready = wait  # as a buffer of one device calls it

    def buffers(self) -> dict[int, Any]:
        """Return the parts in this process as buffers of one device, by position in the group.

        They share memory with this value, so they are not `committed` (see `Client.made`).
        """
        group, aval = self.group, jax_aval_of(self.type)
        parts = zip(group.here, group.places, self.array._arrays, strict=True)
        return {k: _jax.ArrayImpl(aval, on, [x], False, _skip_checks=True) for k, on, x in parts}

    def parts(self) -> dict[int, np.ndarray]:
        """Return the parts in this process as arrays of the host, by position in the group."""
        self.wait()
        return {k: self.group.client.get(x) for k, x in self.buffers().items()}

    def __repr__(self) -> str:
        return f"<Shards of {self.type} on {len(self.group)} devices>"


class ShardedDeviceGroup:
    """Devices of a client, in the order in which programs count them."""

    def __init__(self, client: Client, positions: tuple[int, ...]) -> None:
        self.client, self.positions = client, positions
        self.devices = [client.devices[i] for i in positions]
        self.processes = sorted({d.process_index for d in self.devices})
        self.name = f"devices {', '.join(map(str, positions))}"
        mine = client.device.process_index
        self.here = [k for k, d in enumerate(self.devices) if d.process_index == mine]
        self.local = [self.devices[k] for k in self.here]
        # A part on the client's own device is a buffer like those that are not sharded.
        self.places = [
            client.place if d == client.device else JaxArrayOnDevice(d) for d in self.local
        ]
        self.sharding = JaxArrayOnDevices(self.devices, len(self.here) == len(self.devices))
        self.options = client.options_for(self.devices)

    def __len__(self) -> int:
        return len(self.devices)

    def put(
        self, parts: Sequence[np.ndarray | None], type: Type, whole: np.ndarray | None = None
    ) -> ShardedValue:
        """Transfer the parts of a value, one for each position; other processes' may be None.

        The arrays must not be written to afterwards. All processes must have the same `whole`
        value, if it is given.
        """
        given: list[Any] = [parts[k] for k in self.here]
        array = self.client.transfer(given, type, self.sharding, self.local)
        alone = len(self.processes) == 1
        return ShardedValue(
            self, type, array, None if alone or whole is None else sharded_value_checksum(whole)
        )

    def split(self, array: np.ndarray, slices: Sequence[Any], type: Type) -> ShardedValue:
        """Transfer an array: position k gets a copy of `array[slices[k]]`."""
        parts: list = [None] * len(self)
        for k in self.here:
            parts[k] = np.array(array[slices[k]], order="C")
        return self.put(parts, type)

    def spread(self, array: np.ndarray, type: Type) -> ShardedValue:
        """Transfer the same array to every device."""
        return self.put([array] * len(self), type, array)

    def join(self, buffers: dict[int, Any], type: Type) -> ShardedValue:
        """Combine buffers that are on the right devices, as those of `Shards.buffers`."""
        given = [buffers[k] for k in self.here]
        array = _jax.ArrayImpl(jax_aval_of(type), self.sharding, given, False, _skip_checks=True)
        return ShardedValue(self, type, array)

    def owns(self, value: Any) -> bool:
        return isinstance(value, ShardedValue) and value.group is self

    def compile(
        self, text: str | bytes, outs: Sequence[Type], functions: Sequence[Any] = (),
        flags: Flags = (),
    ) -> ShardedExecutable:  # fmt: skip
        """Compile the program of one device, for all of them."""
        devices = jax_device_list(self.devices)
        loaded = self.client.compiled(text, devices, self._options_with, functions, flags)
        return ShardedExecutable(self, loaded, outs)

    def load(
        self, code: bytes, outs: Sequence[Type], flags: Flags = ()
    ) -> ShardedExecutable | None:
        """Load the result of `Spmd.serialise`; return None if XLA rejects it."""
        devices = jax_device_list(self.devices)
        loaded = self.client.loaded(code, devices, self._options_with, flags)
        return None if loaded is None else ShardedExecutable(self, loaded, outs)

    def _options_with(self, flags: Flags) -> Any:
        return self.client.options_for(self.devices, flags) if flags else self.options

    @property
    def identity(self) -> list[bytes]:
        """Everything that machine code depends on besides the text of its program."""
        return [*self.client.identity, self.options.SerializeAsString()]


def sharded_value_checksum(array: np.ndarray) -> int:
    """Return a number that differs if a bit of an array does."""
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


class ShardedExecutable(Executable):
    """A compiled program that runs on all devices of a group at once."""

    collective = True  # whether the devices communicate
    ballast = False  # whether the last result is not used
    checksum = 0  # identifies the program, on every process alike

    def __init__(self, group: ShardedDeviceGroup, loaded: Any, outs: Sequence[Type]) -> None:
        # Other processes are not waited for here: they may be lost.
        on_host = group.client.platform == "cpu" and len(group.processes) == 1
        super().__init__(loaded, outs, group.sharding, on_host)
        self.group, self.outs = group, tuple(outs)

    def run(self, args: list[ShardedValue]) -> list[ShardedValue]:
        """Start the program; the devices may still be computing its results."""
        arrays = self.group.client.queue.run(self, args) if self.collective else self.start(args)
        results = [ShardedValue(self.group, t, y) for t, y in zip(self.outs, arrays, strict=True)]
        return results[:-1] if self.ballast else results

    def start(self, args: list[ShardedValue]) -> list[Any]:
        return super().run([x.array for x in args])


class ShardedQueue:
    """Starts programs that communicate, in the same order on every device.

    On CPU each device's program occupies a thread of XLA's pool, which has one thread for each
    device, while it waits for the others. Two such programs in flight may each hold some of the
    threads and deadlock; so the next one starts when the last one has ended.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._last: tuple[Any, ShardedDeviceGroup] | None = None

    def run(self, program: ShardedExecutable, args: list[ShardedValue]) -> list[Any]:
        with self._lock:
            self.settle()
            results = self._client.start(program, args)
            if self._client.platform == "cpu" and results:
                least = min(results, key=lambda y: y.on_device_size_in_bytes())
                self._last = least, program.group
            return results

    def settle(self) -> None:
        """Return when no program that communicates is running."""
        if self._last is not None:
            last, self._last = self._last, None
            # its error is raised when its results are read
            with contextlib.suppress(EngineError):
                self._client.wait(*last)
