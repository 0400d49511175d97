"""The header of a saved program, checked before anything in it is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback import errors
from pullback.compiled.arguments import CompiledNumberArgument, Kind
from pullback.compiled.serialize import deserialize_tree
from pullback.errors import PullbackError
from pullback.graph.dtypes import bool_, uint64
from pullback.graph.types import Type
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.spec import P, Sharding

_LISTS = (
    "leaves", "paths", "static", "options", "donated", "captured", "outs", "plan", "input_masks",
    "check_masks", "checks", "sizes",
)  # fmt: skip


def check_header_fields(header: Any) -> None:
    """Raise a ValueError unless the fields of a header have the right kinds and lengths."""
    _demand_of_header(isinstance(header, dict), "it is no dictionary")
    for name in _LISTS:
        _demand_of_header(isinstance(header[name], list), f"{name} is no list")
    for name in ("name", "platform"):
        _demand_of_header(isinstance(header[name], str), f"{name} is no text")
    count, outs = len(header["leaves"]), len(header["outs"])
    _demand_of_header(deserialize_tree(header["in_tree"]).num_leaves == count, "in_tree")
    _demand_of_header(
        deserialize_tree(header["out_tree"]).num_leaves == len(header["plan"]), "out_tree"
    )
    _demand_of_header(
        len(header["paths"]) == count and _all_in_header(str, header["paths"]), "paths"
    )
    given, donors = header["donated"]
    _demand_of_header(len(given) == count and _all_in_header(bool, given), "donated")
    _demand_of_header(all(len(d) == 2 and _all_in_header(int, d) for d in donors), "donated")
    tensors = [leaf[1:] for leaf in header["leaves"] if leaf[0] == "tensor"]
    for shape, *_ in (*tensors, *header["captured"], *header["outs"]):
        _demand_of_header(
            type(shape) is list and _all_in_header(int, shape) and min(shape, default=0) >= 0,
            "a shape",
        )
    inputs = sum(leaf[0] != "static" for leaf in header["leaves"]) + len(header["captured"])
    for is_input, place in header["plan"]:
        least = inputs if is_input else outs
        _demand_of_header(
            type(is_input) is bool and type(place) is int and 0 <= place < least, "plan"
        )
    _masks_in_header(header["input_masks"], outs, inputs + 1)
    checks = header["checks"]
    _masks_in_header(header["check_masks"], outs if checks else 0, len(checks))
    for kind, *texts in checks:
        _demand_of_header(kind in _KINDS and len(texts) == 4, "checks")
        _demand_of_header(all(t is None or isinstance(t, str) for t in texts), "checks")
    positions, names = header["options"]
    _demand_of_header(_all_in_header(int, positions) and _all_in_header(str, names), "options")


def program_matching_header(
    module: bytes, kinds: Sequence[Kind], captured: Sequence[Type], outs: Sequence[Type],
    checks: int, donors: Sequence[tuple[int, int]], mesh: DeviceMesh | None, platform: str,
) -> str:  # fmt: skip
    """Return the text of a program whose arguments and results are those of its header."""
    from pullback.engines.xla.emitted import emitted_again  # keeps `import pullback` light

    tensors = [(i, k) for i, k in enumerate(kinds) if isinstance(k, Type)]
    inputs = [*[k for _, k in tensors], *captured]
    words = sum(1 + (k[0] is complex) for k in kinds if isinstance(k, CompiledNumberArgument))
    numbers = [Type((words,), uint64)] if words else []
    word = [Type((checks,), bool_)] if checks else []
    for leaf, place in donors:
        _demand_of_header(0 <= place < len(tensors) and tensors[place][0] == leaf, "donated")
    donated = [place for _, place in donors]
    wanted = [_local_in_header(t, mesh) for t in inputs], [_local_in_header(t, mesh) for t in outs]
    replicas = 0 if mesh is None else mesh.size
    given, results = [*wanted[0], *numbers], [*wanted[1], *word]
    return emitted_again(module, given, results, donated, replicas, platform)


def _local_in_header(type: Type, mesh: DeviceMesh | None) -> Type:
    """Return the type of the part of a value that one device of a mesh has."""
    if mesh is None:
        return type
    sharding = type.sharding or Sharding(mesh, P())
    return Type(sharding.local_shape(type.shape), type.dtype)


def _masks_in_header(masks: list[Any], count: int, bits: int) -> None:
    _demand_of_header(len(masks) == count and all(0 <= int(m) < 1 << bits for m in masks), "masks")


def _all_in_header(kind: type, values: Sequence[Any]) -> bool:
    return all(type(v) is kind for v in values)


def _demand_of_header(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)


# Errors that a check may raise: all but those with arguments of their own
_KINDS = {
    name
    for name in errors.__all__
    if isinstance(kind := getattr(errors, name), type)
    and issubclass(kind, PullbackError)
    and kind.__init__ is PullbackError.__init__
}
