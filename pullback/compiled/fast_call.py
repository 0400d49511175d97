"""The fastest way to call a program: a function written for one specialization.

It does what `Specialization.attempt` does, without loops and without calls of other functions. If
anything is not as it was when the function was written, it returns `MISSED` and has done nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from pullback import tree
from pullback.compiled.guards.guard_checks import ABSENT
from pullback.engines import fork
from pullback.graph.ambient import thread
from pullback.graph.native import native
from pullback.graph.node import Node, next_number
from pullback.graph.types import Type
from pullback.lazy.launch import lock, state
from pullback.lazy.runtime_checks import suspect_runs
from pullback.lazy.settings import current
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.sources import LEAF

if TYPE_CHECKING:
    from pullback.compiled.specialization import Specialization

# Takes the arguments of a call, positional and by name; returns the result, or `MISSED`
FastCall = Callable[[tuple, dict], Any]
MISSED = object()  # a specialization does not fit, or needs more work than a fast call does
MOST_LEAVES, MOST_CHECKS = 16, 16  # beyond, loops are almost as fast


def never_fast_call(args: tuple, kwargs: dict) -> Any:
    """Miss: the fast call of a function that has none."""
    return MISSED


def write_fast_call(specialization: Specialization, read: Callable[[tuple, dict], Any]) -> FastCall:
    """Return a function that takes the arguments of a call and returns its result, or `MISSED`.

    `read` returns the leaves of arguments, or None if they have another tree.

    Some programs always miss: those with many arguments or results, with numbers among their
    arguments, with donated ones, with results that are inputs, or with run-time checks.
    """
    program = specialization.program
    if program.execute is None or not program.outs or program.numbers:
        return never_fast_call
    if specialization.states or specialization.donates or program.has_checks:
        return never_fast_call
    if native is not None:
        return _native_fast_call(specialization, read)
    inputs = len(specialization.wanted) + len(specialization.captured)
    if max(inputs, len(program.outs)) > MOST_LEAVES:
        return never_fast_call
    place = program.engine.place
    return _FastCallSource(specialization, read, place).written()


def _native_fast_call(
    specialization: Specialization, read: Callable[[tuple, dict], Any]
) -> FastCall:
    """Return the function in C++, which is given what the one in Python would have as source."""
    s, program = specialization, specialization.program
    given = tree.unflatten(s.in_tree, range(s.in_tree.num_leaves))
    result = tree.unflatten(s.out_tree, range(s.out_tree.num_leaves))
    return native.FastCall(
        read=read, layout=given if not s.static and _is_simple_for_call(given) else None,
        wanted=tuple(s.wanted), captured=tuple(s.captured),
        checks=tuple(map(_native_call_check, s.snapshot.checks.single())),
        specialization=s, program=vars(program), home=state.cache, cache=vars(state.cache),
        state=vars(state), suspects=suspect_runs, fork=vars(fork), place=program.engine.place,
        touch=_touch_fast_call_program, handlers=program.handlers,
        outs=tuple(program.outs), plan=None if program.plain else tuple(program.plan),
        result=result if _is_simple_for_call(result) else ...,
        arrange=functools.partial(tree.unflatten, s.out_tree),
    )  # fmt: skip


def _is_simple_for_call(node: Any) -> bool:
    """Whether a tree of numbers consists of tuples, lists, dicts and None."""
    if type(node) is dict:
        return all(map(_is_simple_for_call, node.values()))
    if type(node) in (tuple, list):
        return all(map(_is_simple_for_call, node))
    return node is None or type(node) is int


def _native_call_check(check: tuple[Callable, tuple, str, Any]) -> tuple:
    """Return a check with the name of the attribute that it fetches, if it is one."""
    fetch, given, how, value = check
    return _attribute_in_fast_call(fetch), fetch, given, how == "==", value


def _attribute_in_fast_call(fetch: Callable[..., Any]) -> str | None:
    """Return the name of the attribute that a function fetches; None if it does another thing."""
    wanted: Any = fetch.__reduce__()[1] if type(fetch) is attrgetter else ()
    return wanted[0] if len(wanted) == 1 and "." not in wanted[0] else None


def _touch_fast_call_program(program: Any) -> None:
    """Mark a program as the last one used."""
    with lock:
        state.cache.used(program, False)


class _FastCallSource:
    """The source of a fast call, and the objects that it refers to by name."""

    def __init__(
        self, specialization: Specialization, read: Callable[[tuple, dict], Any], place: Any
    ) -> None:
        self.specialization = specialization
        self.names: dict[str, Any] = {
            "ABSENT": ABSENT, "LEAF": LEAF, "MISSED": MISSED, "Node": Node, "Tensor": Tensor,
            "cache": state.cache, "current": current, "fork": fork,
            "handlers": specialization.program.handlers, "new": object.__new__,
            "next_number": next_number, "place": place, "program": specialization.program,
            "read": read, "specialization": specialization, "state": state, "thread": thread,
            "touch": _touch_fast_call_program, "suspects": suspect_runs,
        }  # fmt: skip

    def name(self, prefix: str, value: Any) -> str:
        """Return a new name for an object."""
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def written(self) -> FastCall:
        body = "\n".join(["    " + line for line in self._lines()])
        parameters = ", ".join(self.names)
        source = f"def outer({parameters}):\n  def call(args, kwargs):\n{body}\n  return call\n"
        found: dict[str, Any] = {}
        exec(compile(source, __file__, "exec"), found)  # the objects are variables of a closure
        return found["outer"](*self.names.values())

    def _lines(self) -> list[str]:
        read, leaves = self._leaves()
        tensors = [x for x, wanted in leaves if isinstance(wanted, Type)]
        captured = [self.name("c", x) for x in self.specialization.captured]
        every = [*tensors, *captured]
        conditions = [
            "mode is specialization.mode", "not mode.check_nan", "execute is not None",
            "state.cache is cache", "not thread.tracing_from", "not suspects",
            "not fork.lost_xla",
            *[self._accepts(x, wanted) for x, wanted in leaves],
            *[f"not n_{x}.tokens and {x}._token is None" for x in every],
            *[f"v_{x}._sharding is place" for x in every],
            *self._checks(),
        ]  # fmt: skip
        buffers = ", ".join([f"v_{x}" for x in every])
        results = [f"r{i}" for i in range(len(self.specialization.program.outs))]
        return [
            "try:",
            *[f"  {line}" for line in read],
            *[f"  if type({x}) is not Tensor: return MISSED" for x in tensors],
            *[f"  n_{x} = {x}._node; v_{x} = n_{x}.value" for x in every],
            "  mode = current(); execute = program.execute",
            f"  if not ({' and '.join(conditions)}):",
            "    return MISSED",
            "except (AttributeError, LookupError, ValueError):",  # not a tensor, or not computed
            "  return MISSED",
            "try:",
            f"  {''.join([r + ', ' for r in results])}= "
            f"execute([{buffers}]).consume_with_handlers(handlers)",
            "except Exception:",  # it fails again, and is reported then
            "  return MISSED",
            "state.programs_run += 1",  # without a lock, for these numbers only inform
            "cache.hits += 1",
            "if cache.latest is not program.compiled: touch(program.compiled)",
            *[line for i, r in enumerate(results) for line in self._tensor(i, r)],
            f"return {self._result(every)}",
        ]

    def _leaves(self) -> tuple[list[str], list[tuple[str, Any]]]:
        """Return lines that read the leaves of the arguments, and what is wanted of each."""
        s = self.specialization
        leaves = [(f"x{i}", wanted) for i, wanted in enumerate(s.wanted)]
        args, kwargs = tree.unflatten(s.in_tree, range(s.in_tree.num_leaves))
        lines = None if s.static else self._parts("args", args) + self._parts("kwargs", kwargs)
        if lines is None or not all(lines):  # the arguments are read by a function
            names = "".join([f"{x}, " for x, _ in leaves])
            lines = ["leaves = read(args, kwargs)", "if leaves is None: return MISSED"]
            lines += [f"{names}= leaves"] if leaves else []
        return lines, leaves

    def _parts(self, place: str, node: Any) -> list[str]:
        """Return lines that read the leaves of a container; an empty one if that is not possible.

        Containers are tuples, lists and dicts. One of another size raises an error.
        """
        parts = list(node.values() if type(node) is dict else node)
        names = [
            f"x{part}" if type(part) is int else f"{place}_{i}" for i, part in enumerate(parts)
        ]
        if not parts:
            return [f"if {place}: return MISSED"]
        if type(node) is dict:
            lines = [f"if len({place}) != {len(node)}: return MISSED"]
            lines += [f"{n} = {place}[{self.name('k', key)}]" for n, key in zip(names, node)]
        else:
            lines = [f"{', '.join(names)}, = {place}"]
        for name, part in zip(names, parts):
            if part is None:
                lines.append(f"if {name} is not None: return MISSED")
            elif type(part) in (tuple, list, dict):
                lines.append(f"if type({name}) is not {type(part).__name__}: return MISSED")
                lines += self._parts(name, part)
            elif type(part) is not int:
                lines.append("")
        return lines

    def _accepts(self, x: str, wanted: Any) -> str:
        """Return the condition that a leaf has the wanted type, or is the wanted static value."""
        expected = self.name("w", wanted)
        return f"n_{x}.type is {expected}" if isinstance(wanted, Type) else f"{expected}({x})"

    def _checks(self) -> list[str]:
        """Return the conditions of the guards."""
        checks = self.specialization.snapshot.checks
        if len(checks) > MOST_CHECKS:
            return [f"{self.name('same', checks.hold)}()"]
        return [
            f"{self._fetched(fetch, given)} {how} {self.name('e', value)}"
            for fetch, given, how, value in checks.single()
        ]

    def _fetched(self, fetch: Callable[..., Any], given: tuple) -> str:
        """Return the expression of what a guard looks at."""
        names = [self.name("a", x) for x in given]
        attribute = _attribute_in_fast_call(fetch)
        if attribute is not None:
            return f"{names[0]}.{attribute}"
        return f"{self.name('g', fetch)}({', '.join(names)})"

    def _tensor(self, i: int, value: str) -> list[str]:
        """Return lines that make a tensor of a result."""
        type, where = self.specialization.program.outs[i]
        return [
            "node = new(Node)",
            "node.op = LEAF; node.inputs = (); node.tokens = (); node.forward_op = ''",
            f"node.type = {self.name('type', type)}; node.where = {self.name('line', where)}",
            f"node.value = {value}; node.number = next_number()",
            f"{value} = new(Tensor)",
            f"{value}._node = node; {value}._token = {value}._grad = None",
        ]

    def _result(self, inputs: list[str]) -> str:
        """Return the expression of the result, from tensors `r0`, `r1` ... and inputs."""
        program, structure = self.specialization.program, self.specialization.out_tree
        if program.plain:
            leaves = [f"r{i}" for i in range(structure.num_leaves)]
        else:  # an input, or a value that is returned twice, gets a handle of its own
            wrapped = self.name("wrap", wrap)
            leaves = [
                f"{wrapped}(n_{inputs[i]})" if is_input else f"{wrapped}(r{i}._node)"
                for is_input, i in program.plan
            ]
        shown = self._shown(tree.unflatten(structure, range(len(leaves))), leaves)
        if shown is not None:
            return shown
        make, known = self.name("make", tree.unflatten), self.name("tree", structure)
        return f"{make}({known}, [{', '.join(leaves)}])"

    def _shown(self, node: Any, leaves: list[str]) -> str | None:
        """Return the expression of a tree of tuples, lists and dicts; None for other trees."""
        if type(node) is int:
            return leaves[node]
        if node is None:
            return "None"
        if type(node) not in (tuple, list, dict):
            return None
        values = node.values() if type(node) is dict else node
        parts = [self._shown(part, leaves) for part in values]
        if any(part is None for part in parts):
            return None
        if type(node) is dict:
            keys = [self.name("k", key) for key in node]
            return "{" + ", ".join([f"{k}: {part}" for k, part in zip(keys, parts)]) + "}"
        inside = "".join([f"{part}, " for part in parts])
        return f"({inside})" if type(node) is tuple else f"[{inside}]"
