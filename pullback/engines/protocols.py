"""Interfaces of engines: what the code above them, and the ops' lowering rules, rely on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from pullback.engines.choices import USUAL, CodeChoices
from pullback.errors import PullbackError
from pullback.graph.dtypes import DType
from pullback.graph.graph import Graph, graph_output_marks
from pullback.graph.node import Node
from pullback.graph.types import Type

if TYPE_CHECKING:
    from pullback.engines.xla.hlo_instructions import HloBlock, HloValue
    from pullback.sharding.mesh import DeviceMesh

Value = TypeVar("Value")  # how an engine represents a value: an array, a buffer, parts on a mesh
Check = tuple[Callable[[], PullbackError], Node]  # creates the error, and the node that checks
Groups = Sequence[Sequence[int]]  # positions in a mesh that communicate with each other


class EngineBuffer(Protocol):
    """A result that a device may still be computing."""

    def is_ready(self) -> bool: ...


class EngineProgram(Protocol[Value]):
    """A compiled graph; `origin` is "disk", "missed" (not on disk), "compiler" or "memory"."""

    host_scalars: bool  # whether packed scalars are passed as an array of the host
    early_checks: bool  # whether `fails` tells of one result before all checks are over
    input_masks: list[int]  # for each output, a bit for each input that it depends on
    nbytes: int
    origin: str
    # Set by the caller of `compile`: where each check, and each node, was recorded.
    written: list[Any]
    stands_for: dict[Node, int]

    @property
    def checks(self) -> Sequence[Check]:
        """If there are any, the last result of a run tells which of them held."""

    def run(self, args: list[Value]) -> list[Any]:
        """Start the program; devices may still be computing what it returns."""


class ProgramBase:
    """What the programs of all engines share."""

    host_scalars = False
    early_checks = False
    written: list[Any]
    stands_for: dict[Node, int]

    def __init__(self, graph: Graph) -> None:
        inputs = {x: 1 << i for i, x in enumerate(graph.inputs)}
        self.input_masks = graph_output_marks(graph, inputs)


class Engine(Protocol[Value]):
    """Compiles graphs and stores values, on one device or on the devices of a mesh."""

    name: str
    platform: str
    local_devices: tuple[int, ...]  # the numbers of the platform's devices in this process
    overwrites: bool  # whether programs of pending work may overwrite inputs that nobody else has

    def put(self, array: np.ndarray, type: Type) -> Value:
        """Transfer an array, which must not be written to afterwards."""

    def get(self, value: Value) -> np.ndarray:
        """Transfer a value to the host."""

    def copy(self, value: Value) -> Value: ...

    def owns(self, value: Any) -> bool:
        """Whether a value can be passed to programs of this engine."""

    def owns_all(self, values: Sequence[Any]) -> bool: ...

    def made(self, values: Sequence[Any]) -> list[bool]:
        """Return for each value whether a program made it: who has its memory refers to it."""

    def compile(
        self, graph: Graph, donated: Sequence[int] = (), choices: CodeChoices = USUAL
    ) -> EngineProgram[Value]:
        """Compile a graph; its results may reuse the memory of `donated` inputs."""

    def compile_profiled(
        self, graph: Graph, donated: Sequence[int] = (), choices: CodeChoices = USUAL
    ) -> EngineProgram[Value]:
        """Compile a graph so that the engine's profiler, if it has one, can name its ops."""

    def give_back(self) -> None:
        """Return the memory of dropped programs to the system."""


class BuilderProtocol(Protocol):
    """Writes the instructions of a program: the first argument of `Op.hlo`."""

    mesh: DeviceMesh | None
    literal: bool

    def op(
        self, mnemonic: str, *xs: HloValue, out: Any, regions: HloBlock | Sequence[HloBlock] = (),
        **attributes: Any,
    ) -> Any: ...  # fmt: skip
    def constant(self, value: Any, dtype: DType) -> HloValue: ...
    def once(self, key: Any, make: Callable[[], HloValue]) -> HloValue: ...
    def full(self, type: Type, value: Any) -> HloValue: ...
    def unwritten_stack(self, type: Type) -> HloValue: ...
    def read_rows(self, stacks: Sequence[HloValue], at: HloValue) -> list[HloValue]: ...
    def write_rows(
        self, stacks: Sequence[HloValue], rows: Sequence[HloValue], at: HloValue
    ) -> list[HloValue]: ...
    def iota(self, shape: Sequence[int], dtype: DType, dimension: int) -> HloValue: ...
    def broadcast(self, x: HloValue, shape: Sequence[int]) -> HloValue: ...
    def broadcast_all(self, xs: Sequence[HloValue], shape: Sequence[int]) -> list[HloValue]: ...
    def broadcast_in_dim(
        self, x: HloValue, shape: Sequence[int], dims: Sequence[int]
    ) -> HloValue: ...
    def reshape(self, x: HloValue, shape: Sequence[int]) -> HloValue: ...
    def transpose(self, x: HloValue, perm: Sequence[int]) -> HloValue: ...
    def convert(self, x: HloValue, dtype: DType) -> HloValue: ...
    def divide(self, x: HloValue, y: HloValue) -> HloValue: ...
    def compare(self, direction: str, x: HloValue, y: HloValue) -> HloValue: ...
    def select(self, condition: HloValue, x: HloValue, y: HloValue) -> HloValue: ...
    def barrier(self, *xs: HloValue) -> tuple[HloValue, ...]: ...
    def may_overlap(self, x: HloValue, updates: HloValue) -> bool: ...
    def reduce(self, mnemonic: str, x: HloValue, init: Any, axes: Sequence[int]) -> HloValue: ...
    def region(
        self, types: Sequence[Type], body: Callable[..., Sequence[HloValue]]
    ) -> HloBlock: ...
    def case(
        self, index: HloValue, branches: Sequence[Callable[[], Sequence[HloValue]]]
    ) -> tuple[HloValue, ...]: ...
    def loop(
        self, init: Sequence[HloValue], condition: Callable[..., HloValue],
        body: Callable[..., Sequence[HloValue]], stops: bool = True, axes: Sequence[str] = (),
    ) -> tuple[HloValue, ...]: ...  # fmt: skip
    def check(self, holds: HloValue, error: Callable[[], PullbackError]) -> None: ...
    def callback(self, f: Callable[..., None], *xs: HloValue) -> None: ...
    def inline(
        self, graph: Graph, xs: Sequence[HloValue], held: bool = False
    ) -> tuple[HloValue, ...]: ...

    def all_reduce(self, xs: Sequence[HloValue], groups: Groups, kind: str) -> list[HloValue]: ...
    def reduce_scatter(self, x: HloValue, groups: Groups, dim: int, kind: str) -> HloValue: ...
    def all_gather(self, x: HloValue, groups: Groups, dim: int) -> HloValue: ...
    def all_to_all(self, x: HloValue, groups: Groups, split: int, concat: int) -> HloValue: ...
    def collective_permute(self, x: HloValue, pairs: Sequence[tuple[int, int]]) -> HloValue: ...
    def by_position(self, numbers: Sequence[int], dtype: DType = ...) -> HloValue: ...
