"""custom_vjp and custom_jvp: functions with derivative rules that the user writes."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar, overload

from pullback import tree
from pullback.api.custom_arguments import CustomArguments
from pullback.api.custom_results import known_custom_result, line_of_custom_result
from pullback.api.custom_rules import UserCustomRule
from pullback.api.recording import recorded_outputs
from pullback.api.signatures import Argnames, Argnums, Params, Result
from pullback.errors import ArgumentError
from pullback.graph.argument_checks import checked_integer_argument, with_argument_checks
from pullback.graph.boundary import boundary_methods
from pullback.graph.derivative_tokens import derivative_tokens_of_constant
from pullback.graph.graph import graph_ancestors
from pullback.graph.node import Node, next_number
from pullback.graph.source_lines import user_line
from pullback.lazy.operators import node_of
from pullback.lazy.record import record_several
from pullback.lazy.tensor import wrap
from pullback.ops.wrap.custom import Custom, custom_op_closure_error
from pullback.ops.wrap.identity import StopGradient

_STOP = StopGradient()

Rule = TypeVar("Rule", bound=Callable)


class CustomVjpDecorator(Protocol):
    """What `custom_vjp` and `custom_jvp` return without a function."""

    def __call__(self, f: Callable[Params, Result], /) -> CustomFunction[Params, Result]: ...


@boundary_methods
class CustomFunction(Generic[Params, Result]):
    """A function with derivative rules from the user; made by `custom_vjp` and `custom_jvp`."""

    def __init__(
        self, kind: str, f: Callable[Params, Result], nondiff_argnums: Argnums,
        nondiff_argnames: Argnames,
    ) -> None:  # fmt: skip
        functools.update_wrapper(self, f)
        self.kind, self.f = kind, f
        self.name: str = getattr(f, "__name__", type(f).__name__)
        self.signature = inspect.signature(f)
        self.fwd: Callable | None = None
        self.bwd: Callable | None = None
        self.jvp: Callable | None = None
        numbers = self._numbers(nondiff_argnums)
        names = (nondiff_argnames,) if isinstance(nondiff_argnames, str) else nondiff_argnames
        self.static = (*numbers, *[self._position(n) for n in names])

    def _numbers(self, given: Argnums) -> tuple[int, ...]:
        what = "each of nondiff_argnums"
        many = given if isinstance(given, (tuple, list)) else (given,)
        numbers = tuple([checked_integer_argument(self.kind, i, what) for i in many])
        kinds = [p.kind for p in self.signature.parameters.values()]
        most = math.inf if inspect.Parameter.VAR_POSITIONAL in kinds else len(kinds)
        if any(not 0 <= i < most for i in numbers) or len(set(numbers)) < len(numbers):
            must = f"must be different arguments of {self.name}, which has {len(kinds)}"
            raise ArgumentError(f"{self.kind}: nondiff_argnums {must}, got {given}")
        return numbers

    def _position(self, name: str) -> int:
        names = list(self.signature.parameters)
        if name not in names:
            what = f"{self.kind}: {self.name} has no argument {name!r}"
            raise ArgumentError(what, where=line_of_custom_result(self.f))
        return names.index(name)

    def __call__(self, *args: Params.args, **kwargs: Params.kwargs) -> Result:
        if self.bwd is None and self.jvp is None:
            rule = "f.defvjp(fwd, bwd)" if self.kind == "custom_vjp" else "f.defjvp(rule)"
            hint = f"Call {rule} after its definition."
            raise ArgumentError(f"{self.name}: no derivative rule was given", hint=hint)
        call = CustomArguments(self, args, kwargs)
        key = (self, *call.key)
        nodes = tuple([node_of(x) for x in call.tensors])
        known = known_custom_result(key, nodes)
        if known is not None:
            return known
        first = next_number()
        result = call(self.f, [wrap(_custom_vjp_constant(x)) for x in nodes])
        ys, out_tree = recorded_outputs(self.name, result)
        outs = [node_of(y) for y in ys]
        _check_custom_closure(self.name, outs, first)
        op = Custom(UserCustomRule(key, self, call, out_tree), len(outs))
        return tree.unflatten(out_tree, record_several(op, (*outs, *nodes)))

    def defvjp(self, fwd: Callable, bwd: Rule) -> Rule:
        """Set the reverse-mode rule; return `bwd`.

        `fwd(*args)` returns the result and residuals: anything that `bwd` needs.
        `bwd(*static, residuals, g)` returns a tuple with one cotangent for each argument that is
        not static; `None` stands for zero.
        """
        _require_custom_callables(f"{self.name}.defvjp", fwd, bwd)
        self.fwd, self.bwd = fwd, bwd
        return bwd

    def defjvp(self, rule: Rule) -> Rule:
        """Set the forward-mode rule, `rule(*static, primals, tangents) -> (result, tangent)`."""
        _require_custom_callables(f"{self.name}.defjvp", rule)
        self.jvp = rule
        return rule


@overload
def custom_vjp(
    f: Callable[Params, Result], nondiff_argnums: Argnums = (), nondiff_argnames: Argnames = ()
) -> CustomFunction[Params, Result]: ...
@overload
def custom_vjp(
    *, nondiff_argnums: Argnums = (), nondiff_argnames: Argnames = ()
) -> CustomVjpDecorator: ...
@with_argument_checks
def custom_vjp(
    f: Callable | None = None, nondiff_argnums: Argnums = (), nondiff_argnames: Argnames = ()
) -> Any:
    """Give a function a custom reverse-mode rule.

    Call `f.defvjp(fwd, bwd)` afterwards: `fwd` computes the result and what is needed later, `bwd`
    turns that and the result's cotangent into one cotangent for each argument. Arguments that
    `nondiff_argnums` or `nondiff_argnames` name are static: `bwd` gets them first. Keyword-only
    arguments are static too; `f` and `fwd` get them. Also a decorator: `@pb.custom_vjp`, or
    `@pb.custom_vjp(nondiff_argnums=0)`.

    >>> @pb.custom_vjp
    ... def clip_gradient(x):
    ...     return x
    >>> clip_gradient.defvjp(
    ...     lambda x: (x, None), lambda residuals, g: (pb.clip(g, -1.0, 1.0),)
    ... )  # doctest: +ELLIPSIS
    <function ...>
    >>> pb.grad(lambda x: (10.0 * clip_gradient(x)).sum())(pb.tensor([1.0, 2.0])).tolist()
    [1.0, 1.0]
    """

    def decorate(f: Callable[Params, Result]) -> CustomFunction[Params, Result]:
        return CustomFunction("custom_vjp", f, nondiff_argnums, nondiff_argnames)

    return decorate if f is None else decorate(f)


@overload
def custom_jvp(
    f: Callable[Params, Result], nondiff_argnums: Argnums = (), nondiff_argnames: Argnames = ()
) -> CustomFunction[Params, Result]: ...
@overload
def custom_jvp(
    *, nondiff_argnums: Argnums = (), nondiff_argnames: Argnames = ()
) -> CustomVjpDecorator: ...
@with_argument_checks
def custom_jvp(
    f: Callable | None = None, nondiff_argnums: Argnums = (), nondiff_argnames: Argnames = ()
) -> Any:
    """Give a function a custom forward-mode rule; reverse mode transposes it.

    Call `f.defjvp(rule)` afterwards: `rule(primals, tangents)` returns the result and its tangent,
    which must be linear in the tangents. `nondiff_argnums` and `nondiff_argnames` name static
    arguments, which the rule gets first.

    >>> @pb.custom_jvp
    ... def log1pexp(x):
    ...     return pb.log(1.0 + pb.exp(x))
    >>> @log1pexp.defjvp
    ... def rule(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return log1pexp(x), t * (1.0 - 1.0 / (1.0 + pb.exp(x)))
    >>> pb.grad(log1pexp)(pb.tensor(100.0)).item()
    1.0
    """

    def decorate(f: Callable[Params, Result]) -> CustomFunction[Params, Result]:
        return CustomFunction("custom_jvp", f, nondiff_argnums, nondiff_argnames)

    return decorate if f is None else decorate(f)


def _custom_vjp_constant(x: Node) -> Node:
    """An argument inside the function: a constant, since derivatives go through the rule."""
    return Node(_STOP, (x,), x.type, x.where, derivative_tokens_of_constant(x.tokens))


def _check_custom_closure(name: str, outs: Sequence[Node], first: int) -> None:
    """Raise if the function uses a differentiated value that is not one of its arguments.

    Arguments are constants inside, so any node under a derivative comes from outside.
    """
    if not any(map(_custom_under_derivative, outs)):
        return
    for node in graph_ancestors(outs, lambda n: n.number < first):
        inside = node.number >= first
        if _custom_under_derivative(node) and (inside or node in outs):
            raise custom_op_closure_error(name, (node.where if inside else None) or user_line())


def _custom_under_derivative(node: Node) -> bool:
    return any(t.alive and not t.traces for t in node.tokens)


def _require_custom_callables(name: str, *functions: Any) -> None:
    for f in functions:
        if not callable(f):
            raise ArgumentError(f"{name}: rules must be functions, got {type(f).__name__}")
