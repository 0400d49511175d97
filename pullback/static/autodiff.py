"""Static reverse mode: make a canonical module that computes the gradients of a module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pullback import errors
from pullback.graph.argument_checks import checked_integer_argument, checked_sequence_argument, text
from pullback.graph.canonical import canonicalise_all
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.ops.sources import Const, Result
from pullback.static.catalogue import catalogued
from pullback.static.differentiate import differentiate_static
from pullback.static.link import link_module
from pullback.static.module import IRModule, require_static_module
from pullback.static.profiles import CORE, EXTENDED, GRADIENT, PROFILES
from pullback.static.verify import verify
from pullback.transforms.reverse import reverse_path

# The text of Core v1 excludes these two from differentiation.
FORWARD_ONLY = ("Conv2d", "Div")
CHOICES = ("inputs", "all")


@dataclass(frozen=True)
class GradientOptions:
    """Options of `autodiff`.

    `verify`: verify the module and the gradient module. `strict_ops`: refuse every instruction
    without a derivative rule, even if no derivative needs one. `gradients`: "inputs", or "all" for
    the gradients of all float values except constants.
    """

    verify: bool = True
    strict_ops: bool = False
    gradients: str = "inputs"

    def __post_init__(self) -> None:
        if self.gradients not in CHOICES:
            message = f"gradients must be one of {CHOICES}, got {self.gradients!r}"
            raise errors.ArgumentError(message)


class Gradient(NamedTuple):
    """A module whose outputs are those of the original module, followed by the gradients.

    `gradients` maps values of the original module to values of `gradient_module`.
    """

    gradient_module: IRModule
    gradients: dict[int, int]


@catalogued
def autodiff(
    module: IRModule,
    wrt: Sequence[int | str] | int | str | None = None,
    output: int | None = None,
    seed: bool | str | None = None,
    options: GradientOptions = GradientOptions(),
    profile: str | None = None,
) -> Gradient:
    """The gradients of a module's output, as a module.

    `wrt` selects values by number or inputs by name; the default is all float inputs. The output
    must be a float scalar; if there are several, `output` selects one by its number. With `seed`,
    the cotangent is another input (of that name) and the output may have any shape. Values that
    the canonical form merges have the same gradient.

    >>> import pullback as pb
    >>> module = pb.ir.parse('''
    ... %0 = Input() {name: "x"} : Tensor<f32, [3]>
    ... %1 = Input() {name: "y"} : Tensor<f32, [3]>
    ... %2 = BinOp(Mul, %0, %1) : Tensor<f32, [3]>
    ... %3 = Dot(%2, %0) : Tensor<f32, []>
    ... outputs: %3
    ... ''')
    >>> made = pb.ir.autodiff(module, wrt=["y"])
    >>> print(made.gradient_module)
    profile: core-v1+gradient
    %0 = Input() {name: "x"} : Tensor<f32, [3]>
    %1 = Input() {name: "y"} : Tensor<f32, [3]>
    %2 = BinOp(Mul, %0, %1) : Tensor<f32, [3]>
    %3 = Dot(%2, %0) : Tensor<f32, []>
    %4 = ConstF32(1.0) : Tensor<f32, []>
    %5 = BinOp(Mul, %0, %4) : Tensor<f32, [3]>
    %6 = BinOp(Mul, %0, %5) : Tensor<f32, [3]>
    outputs: %3, %6
    >>> made.gradients
    {1: 6}
    """
    module = require_static_module("autodiff", module)
    if not isinstance(options, GradientOptions):
        message = f"autodiff: options must be GradientOptions, got {options!r}"
        hint = "For example: options=pb.ir.GradientOptions(verify=False)."
        raise errors.ArgumentError(message, hint=hint)
    if not isinstance(seed, (bool, str, type(None))) or seed == "":
        what = f"autodiff: seed must be True or a name, got {seed!r}"
        hint = "Pass the value of the cotangent when the module is run."
        raise errors.ArgumentError(what, hint=hint)
    if output is not None:
        output = checked_integer_argument("autodiff", output, "output")
    if isinstance(wrt, (int, str)):
        wrt = [wrt]
    targets = None if wrt is None else checked_sequence_argument("autodiff", wrt, "wrt")
    if profile is not None:
        profile = text("autodiff", profile, "profile")
    if profile is not None and profile != module.profile:
        module = IRModule(module.instructions, module.outputs, profile)
    return _Autodiff(module, options).gradient(targets, output, seed)


class _Autodiff:
    """A module, linked and in its canonical form."""

    def __init__(self, module: IRModule, options: GradientOptions) -> None:
        self.module, self.options = module, options
        self.core = module.profile != EXTENDED
        if options.verify:
            graph, self.values = module.graph, module.values
        else:
            graph, self.values = link_module(module, verify=False)
        self.graph, self.places = canonicalise_all(graph)

    def gradient(
        self, wrt: Sequence[int | str] | None, output: int | None, seed: bool | str | None
    ) -> Gradient:
        y = self.place(self.choose_output(output, seed))
        ids = self.choose_targets(wrt)
        targets = [self.place(i) for i in ids]
        name = self.seed_name(seed)
        self.check_rules(y, targets)
        try:
            made = differentiate_static(self.graph, y, targets, name, self.core)
        except errors.PullbackError as error:
            raise self.explained(error) from None
        except Exception as error:
            if self.options.verify:
                raise
            what = f"{type(error).__name__}: {error}"
            message = f"a derivative rule failed on a module that was not verified: {what}"
            raise errors.GradientVerification(message) from error
        profile = GRADIENT if self.core else EXTENDED
        if self.options.verify:
            _verify_for_autodiff(made, profile)
        made, _ = canonicalise_all(made)
        result = IRModule.from_graph(made, profile)
        found = result.outputs[len(self.graph.outputs) :]
        return Gradient(result, dict(zip(ids, found, strict=True)))

    def place(self, i: int) -> Node:
        """The node of a value in the canonical graph, or in the original one if it was dropped."""
        node = self.values[i]
        return self.places.get(node, node)

    def choose_output(self, output: int | None, seed: bool | str | None) -> int:
        outputs = self.module.outputs
        known = ", ".join([f"%{i}" for i in outputs])
        if output is None:
            if len(outputs) != 1:
                found = f"there are {len(outputs)}: {known}" if outputs else "there is none"
                message = f"autodiff: needs one output, {found}"
                hint = f"Choose one: output={outputs[0]}." if outputs else None
                raise errors.UnsupportedShape(message, hint=hint, outputs=outputs)
            output = outputs[0]
        elif output not in outputs:
            message = f"autodiff: output must be one of the outputs, {known}, got {output!r}"
            raise errors.UnsupportedShape(message, outputs=outputs)
        type = self.values[output].type
        if not type.inexact or (not seed and (type.shape or not type.dtype.is_float)):
            what = "float or complex" if seed else "a float scalar"
            message = f"autodiff: output %{output} must be {what}, it is {type}"
            hint = "With seed=True its cotangent is another input." if type.inexact else None
            raise errors.UnsupportedShape(message, hint=hint, value=output, shape=type.shape)
        return output

    def choose_targets(self, wrt: Sequence[int | str] | None) -> list[int]:
        inputs = {i.name: i.results[0] for i in self.module.instructions if i.op == "Input"}
        if wrt is None:
            found = [i for i in inputs.values() if self.values[i].type.inexact]
        else:
            found = list(dict.fromkeys(self.target(t, inputs) for t in wrt))
        if self.options.gradients == "all":
            more = [i for i in sorted(self.values) if self.problem(i) is None]
            found = list(dict.fromkeys([*found, *more]))
        return found

    def target(self, target: int | str, inputs: dict[str, int]) -> int:
        i = inputs.get(target) if isinstance(target, str) else target
        if i is None or i not in self.values:
            known = f"Its inputs are {', '.join(inputs) or 'none'}."
            what = f"autodiff: the module has no value {target!r}"
            raise errors.ArgumentError(what, code="E4001", hint=known)
        problem = self.problem(i)
        if problem is not None:
            message = f"autodiff: cannot differentiate with respect to %{i}: it is {problem}"
            raise errors.NonDifferentiableInput(message, value=i)
        return i

    def problem(self, i: int) -> str | None:
        """The reason why a value has no gradient."""
        node = self.values[i]
        if not node.type.inexact:
            return str(node.type)
        return "a constant" if isinstance(node.op, Const) else None

    def seed_name(self, seed: bool | str | None) -> str | None:
        if not seed:
            return None
        name = "cotangent" if seed is True else seed
        if name in self.graph.names:
            hint = "Choose another name for the cotangent: seed='dy'."
            raise errors.ArgumentError(f"autodiff: there is already an input {name!r}", hint=hint)
        return name

    def check_rules(self, y: Node, targets: Sequence[Node]) -> None:
        """Refuse the last instruction on a path to a target if the profile has no rule for it."""
        if self.options.strict_ops:
            for node in reversed(list(self.values.values())):
                node = node.inputs[0] if isinstance(node.op, Result) else node
                if node.inputs and not self.has_rule(node):
                    raise self.unsupported(node)
        active = reverse_path([y], targets)
        for node in reversed(active):
            if not active.keys().isdisjoint(node.inputs) and not self.has_rule(node):
                raise self.unsupported(node)

    def has_rule(self, node: Node) -> bool:
        op, types = node.op, [x.type for x in node.inputs]
        if self.core and (op.name in FORWARD_ONLY or op.text.least_profile(op, types) != CORE):
            return False
        return op.differentiable or isinstance(op, Result)

    def unsupported(self, node: Node) -> errors.UnsupportedOp:
        i, op = self.number(node), node.op
        within = f" in the profile {self.module.profile}" if self.core else ""
        hint = "It is on a path from a target of the differentiation to the output."
        if self.core and op.differentiable:
            hint = f'The extended profile has one: write profile="{EXTENDED}".'
        return errors.UnsupportedOp(
            f"there is no derivative rule for it{within}, at %{i}",
            op=op.name, where=node.where, hint=hint, value=i,
        )  # fmt: skip

    def number(self, node: Node) -> int:
        """The number of a value in the original module."""
        for i, value in sorted(self.values.items()):
            for found in (value, self.places.get(value, value)):
                if found is node or (isinstance(found.op, Result) and found.inputs[0] is node):
                    return i
        raise KeyError(node)

    def explained(self, error: errors.PullbackError) -> errors.PullbackError:
        """An error in a derivative rule as an error of the catalogue."""
        node, place = error.values.pop("node", None), ""
        if node is not None:
            error.values["value"] = i = self.number(node)
            place = f" of {node.op.name}, at %{i},"
        invalid = isinstance(error, errors.GradientVerification)
        if isinstance(error, errors.AutodiffError) and not invalid:
            return error
        inner = "E2001" if invalid else error.code
        kind = errors.InvalidAxis if inner in ("E3004", "E3005") else errors.GradientVerification
        return kind(
            f"the gradient{place} cannot be computed ({inner}): {error.message}",
            where=error.where, inner=inner, **error.values,
        )  # fmt: skip


def _verify_for_autodiff(graph: Graph, profile: str) -> None:
    try:
        verify(graph)
        for op, *types in {(n.op, *[x.type for x in n.inputs]): None for n in graph.nodes}:
            if op.text.profile:
                PROFILES[profile].check_op(op, types)
    except errors.PullbackError as error:
        raise errors.GradientVerification(
            f"the gradient module is invalid ({error.code}): {error.message}",
            where=error.where, inner=error.code, **error.values,
        ) from None  # fmt: skip
