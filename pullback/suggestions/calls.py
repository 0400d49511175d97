"""Calls whose arguments do not fit: which ones the function has, and which was meant."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

from pullback.errors import ArgumentError
from pullback.graph.source_lines import is_internal_file

_PREFIXES = (
    "data", "debug", "distributed", "fft", "ir", "linalg", "optim", "random", "special", "tree",
)  # fmt: skip
# What other libraries call a parameter, and what it may be called here
_SYNONYMS = {
    "dim": ("axis",), "dims": ("axis", "axes", "shape"), "axes": ("axis",), "axis": ("axes", "dim"),
    "keepdim": ("keepdims",), "keep_dims": ("keepdims",), "unbiased": ("correction",),
    "ddof": ("correction",), "input": ("x", "x1"), "other": ("x2", "y"), "a": ("x", "x1"),
    "b": ("x2", "y"), "arr": ("x",), "array": ("x",), "A": ("x", "a"), "y": ("x2",),
    "x": ("x1", "a", "arrays"), "x1": ("x",), "tensor": ("x",), "tensors": ("arrays",),
    "size": ("shape",), "sizes": ("shape",), "newshape": ("shape",), "num_samples": ("shape",),
    "type": ("dtype",), "epsilon": ("eps",), "beta1": ("betas",),
    "beta2": ("betas",), "wd": ("weight_decay",), "seed": ("key", "data"), "key": ("seed",),
    "in_dims": ("in_axes",), "out_dims": ("out_axes",), "fun": ("f",), "func": ("f",),
    "fn": ("f",), "function": ("f",), "body_fun": ("body",), "cond_fun": ("cond",),
    "init_val": ("init",), "a_min": ("min",), "a_max": ("max",), "min": ("low", "minval"),
    "max": ("high", "maxval"), "minval": ("low",), "maxval": ("high",), "low": ("minval",),
    "high": ("maxval",), "mean": ("loc",), "std": ("scale",), "loc": ("mean",), "scale": ("std",),
    "p": ("ord", "probability"), "ord": ("p",), "constant_values": ("value",),
    "fill_value": ("value",), "value": ("fill_value", "constant_values"), "stride": ("strides",),
    "kernel": ("filters",), "weight": ("filters",), "name": ("axis_name",),
    "padding": ("pad_width",), "indices_or_sections": ("sections",), "num_workers": ("workers",),
    "prefetch_factor": ("prefetch",), "collate_fn": ("collate",), "generator": ("key",),
}  # fmt: skip
# What to do if an argument is no integer
INTEGER_HINTS = {
    "concat": "Write pb.concat([x, y]): the tensors are one argument.",
    "stack": "Write pb.stack([x, y]): the tensors are one argument.",
}
_PADDING_HINT = "padding_mask", "Write padding_mask=~mask: it is true for keys that are there."
_MASK_HINT = "mask", "Write mask=~mask: it is true where a key is seen; floats are added."
# Keywords that need more than another name, for functions with a parameter, and what to write
_KEYWORD_HINTS = {
    "unbiased": ("correction", "Write correction=1 for unbiased=True, and 0 for unbiased=False."),
    "key_padding_mask": _PADDING_HINT, "src_key_padding_mask": _PADDING_HINT,
    "tgt_key_padding_mask": _PADDING_HINT, "attn_mask": _MASK_HINT, "src_mask": _MASK_HINT,
    "tgt_mask": _MASK_HINT,
    "batch_first": ("num_heads", "The batch is always first: leave the argument out."),
    "set_to_none": ("", "Gradients are always set to None: leave the argument out."),
    "is_causal": ("causal", "Write causal=..."),
    "out": ("", "Results are new tensors: write y = f(...), or y[...] = f(...) to change y."),
}  # fmt: skip
# Functions that return values and indices in PyTorch, and what gives the indices here
_PAIRS = {
    "max": "argmax", "min": "argmin", "sort": "argsort", "cummax": "return_indices=True",
    "cummin": "return_indices=True",
}  # fmt: skip

# What to do if the argument of a function that takes functions is none
FUNCTION_HINTS = {
    "trace": "It records the program of a function. The sum of a diagonal is pb.linalg.trace(x).",
    "grad": "Write pb.grad(f)(x), or y.backward() for a tensor that was computed.",
    "compile": "Write pb.compile(f), or @pb.compile before the definition.",
    "vmap": "Write pb.vmap(f)(x).", "map": "Write pb.map(f, x); pb.tree.map(f, tree) maps leaves.",
}  # fmt: skip


def refused_call_arguments(
    f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> ArgumentError | None:
    """The error for a call that does not fit the signature of `f`; None if it fits."""
    inner = inspect.unwrap(f)
    if is_internal_file(getattr(inner, "__code__", f.__code__).co_filename):
        f = inner  # otherwise it is a user's, which may take more than its signature says
    try:
        signature = inspect.signature(f, follow_wrapped=False)
        signature.bind(*args, **kwargs)
    except TypeError:
        pass
    except ValueError:  # there is no signature
        return None
    else:
        return None
    op, method = called_name(f)
    parameters = list(signature.parameters.values())[method:]
    known = ", ".join(_shown_call_parameter(p) for p in parameters) or "none"
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    for name in kwargs:
        if name not in named:
            hint = _meant_in_call(op.rpartition(".")[2], name, named, kwargs)
            what = f"there is no argument {name!r}; the arguments are {known}"
            return ArgumentError(what, op=op, hint=hint)
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    given = len(args) - method
    if given > len(places) and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        what = f"takes at most {len(places)} positional arguments, got {given}"
        hint = _suggest_one_argument_call([p.name for p in places], args[method:])
        return ArgumentError(f"{what}; the arguments are {known}", op=op, hint=hint)
    twice = [p.name for p in places[:given] if p.name in kwargs]
    if twice:
        return ArgumentError(f"{twice[0]!r} is given twice; the arguments are {known}", op=op)
    missing = [
        p.name for p in parameters
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        and p not in places[:given] and p.name not in kwargs
    ]  # fmt: skip
    what = " and ".join(map(repr, missing))
    verb = "are" if len(missing) > 1 else "is"
    return ArgumentError(f"{what} {verb} missing; the arguments are {known}", op=op)


def called_name(f: Callable[..., Any]) -> tuple[str, bool]:
    """The name under which users call a function, and whether it is a method with a `self`."""
    module = f.__module__.removeprefix("pullback.").partition(".")[0]
    name = f.__qualname__.rpartition("<locals>.")[2].removesuffix(".__init__")
    first = next(iter(inspect.signature(f, follow_wrapped=False).parameters), "")
    prefix = f"{module}." if module in _PREFIXES else ""
    name = re.sub(r"\w*Methods\.", "Tensor.", name)
    return f"{prefix}{name}", first == "self"


def _shown_call_parameter(p: inspect.Parameter) -> str:
    return str(p.replace(annotation=p.empty, default=p.empty))  # with its stars


def _suggest_one_argument_call(names: list[str], args: Sequence[Any]) -> str | None:
    """The hint for `reshape(x, 2, 3)`: the shape is one argument."""
    for name, *rest in ((n, *args[i:]) for i, n in enumerate(names) if n in ("shape", "axes")):
        if all(isinstance(value, int) for value in rest):
            return f"Write {name}=({', '.join(map(str, rest))}): it is one argument."
    return None


def _meant_in_call(function: str, name: str, known: list[str], given: dict[str, Any]) -> str | None:
    """What to write instead of an unknown keyword."""
    if name in _KEYWORD_HINTS and _KEYWORD_HINTS[name][0] in ("", *known):
        return _KEYWORD_HINTS[name][1]
    if name in ("dim", "keepdim") and function in _PAIRS:
        ours = {"dim": "axis", "keepdim": "keepdims"}[name]
        pair = f"The result is the values alone: {_PAIRS[function]} gives the indices."
        return f"Write {ours}=... instead of {name}=... {pair}"
    free = [k for k in known if k not in given]
    meant = [k for k in _SYNONYMS.get(name, ()) if k in free]
    meant = meant or difflib.get_close_matches(name, free, 1, 0.6)
    return f"Write {meant[0]}=... instead of {name}=..." if meant else None
