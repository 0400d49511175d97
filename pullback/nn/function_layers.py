"""Layers that are a function with settings: made from the function, whose signature they have."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from pullback.graph.argument_checks import with_argument_checks
from pullback.nn.module import Module, State
from pullback.nn.module_tree import module_tree_holds_tensors


class LayerFunction(NamedTuple):
    """A function and how a layer calls it."""

    call: Callable[..., Any]
    settings: dict[str, Any]  # the defaults of the arguments that the layer holds
    has_mode: bool  # whether it takes `training`
    has_key: bool  # whether it takes `key`


class FunctionLayer(Module):
    """A function as a layer: the settings are attributes, the call passes the other arguments."""

    _function: ClassVar[LayerFunction]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        known = self._function
        own = self.__dict__
        settings = {name: own[name] for name in known.settings}
        if known.has_mode:
            settings["training"] = self.training
        return known.call(*args, **settings, **kwargs)

    def extra_repr(self) -> str:
        """Return the settings that differ from their defaults.

        >>> pb.nn.MaxPool2d(2).extra_repr()
        'kernel_size=2'
        """
        defaults, own = self._function.settings, self.__dict__
        return ", ".join(
            [f"{n}={own[n]!r}" for n, v in defaults.items() if _function_layer_differs(own[n], v)]
        )


def _function_layer_differs(value: Any, default: Any) -> bool:
    return not module_tree_holds_tensors(value) and (
        type(value) is not type(default) or value != default
    )


def function_layer(
    name: str, function: Callable[..., Any], example: str, result: str, *, about: str = "",
    inputs: int = 1, without: tuple[str, ...] = (), inplace: bool = False, **defaults: Any,
) -> type[FunctionLayer]:  # fmt: skip
    """Return the class of layers that call `function`.

    Its first arguments are the `inputs` of a call; the others, except `without`, are settings,
    with other `defaults` where given. Settings that are tensors are state. The documentation says
    what the function does, `about` what else there is to know, and shows an example with its
    result. With `inplace` the class takes that flag, as PyTorch's does; it has no effect.
    """
    given = list(inspect.signature(function).parameters.values())[inputs:]
    names = {p.name for p in given}
    held = [p for p in given if p.name not in ("training", "key", *without)]
    held = [p.replace(default=defaults.get(p.name, p.default)) for p in held]
    settings = {p.name: p.default for p in held}
    body = {
        "__init__": _function_layer_init(name, held, inplace),
        "__module__": sys._getframe(1).f_globals["__name__"],
        "__doc__": _function_layer_doc(function, about, example, result),
        "_function": LayerFunction(function, settings, "training" in names, "key" in names),
    }  # fmt: skip
    return type(name, (FunctionLayer,), body)


def _function_layer_init(
    name: str, held: list[inspect.Parameter], inplace: bool
) -> Callable[..., None]:
    """Return the `__init__` that takes settings and checks them by their annotations."""
    positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
    taken = [inspect.Parameter("self", positional), *[p for p in held if p.kind is positional]]
    if inplace:
        flag = inspect.Parameter("inplace", positional, default=False, annotation="bool")
        taken.append(flag)
    signature = inspect.Signature([*taken, *[p for p in held if p.kind is not positional]])
    tensors = {p.name for p in held if "ArrayLike" in str(p.annotation)}

    def init(self: FunctionLayer, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        given = {n: v for n, v in bound.arguments.items() if n not in ("self", "inplace")}
        for setting, value in given.items():
            is_state = setting in tensors and value is not None
            setattr(self, setting, State(value) if is_state else value)

    made: Any = init
    made.__signature__ = signature
    made.__name__, made.__qualname__ = "__init__", f"{name}.__init__"
    return with_argument_checks(made)


def _function_layer_doc(function: Callable[..., Any], about: str, example: str, result: str) -> str:
    does = (inspect.getdoc(function) or "").partition("\n\n")[0]
    more = f"\n\n    {about}" if about else ""
    public = "functional" in function.__module__
    head = f"`pb.nn.functional.{function.__name__}` as a layer.\n\n    " if public else ""
    return f"{head}{does}{more}\n\n    >>> {example}\n    {result}\n    "
