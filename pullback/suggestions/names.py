"""Unknown names: what to write instead, from tables of NumPy's, JAX's and PyTorch's names."""

from __future__ import annotations

import difflib
import re
import sys
from types import FunctionType
from typing import Any

import numpy as np

from pullback.suggestions.module_names import TABLES
from pullback.suggestions.object_names import OBJECT_NAMES
from pullback.suggestions.tensor_names import TENSOR_NAMES

# Where a name that is not in its place is looked for, in this order
_MODULES = (
    "pullback", "pullback.linalg", "pullback.special", "pullback.fft", "pullback.random",
    "pullback.optim", "pullback.tree", "pullback.debug", "pullback.testing", "pullback.ir",
    "pullback.errors", "pullback.typing", "pullback.data", "pullback.nn", "pullback.nn.functional",
    "pullback.io", "pullback.train",
    "pullback.nn.init",
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z]\w*")


def suggest_name(owner: str, name: str) -> str:
    """A sentence that says what to write instead of a name that `owner` does not have, or ""."""
    if name.startswith("_"):
        return ""
    answer = _suggested_name_answers(owner).get(name)
    if answer is not None:
        return _name_sentence(owner, answer)
    if owner in OBJECT_NAMES:
        return ""
    found = _name_elsewhere(owner, name)
    if found:
        return f"Write {found}."
    close = difflib.get_close_matches(name, _name_candidates(owner), 3, 0.7)
    if close:
        prefix = "x" if owner == "Tensor" else _short_suggested_name(owner)
        return f"Did you mean {' or '.join(f'{prefix}.{c}' for c in close)}?"
    if owner == "pullback" and callable(getattr(np, name, None)):
        what = f"np.{name} computes it on the host, outside transforms and without a derivative"
        return f"There is no such function here; {what}: np.{name}(x.numpy())."
    return ""


def _suggested_name_answers(owner: str) -> dict[str, str]:
    """The table of a module or of Tensor."""
    if owner == "Tensor":
        return TENSOR_NAMES
    if owner in OBJECT_NAMES:
        return OBJECT_NAMES[owner]
    numpy_names = sys.modules["pullback.interop.numpy"].NAMES if owner == "pullback" else {}
    return TABLES.get(owner, {}) | {name: f"pb.{ours}" for name, ours in numpy_names.items()}


def names_in_suggestion(owner: str, answer: str) -> list[str]:
    """The names that an answer refers to: "pb.concat", "x.reshape"."""
    if _NAME.fullmatch(answer) and owner != "Tensor":
        return [f"{_short_suggested_name(owner)}.{answer}"]
    return [m.rstrip(".") for m in re.findall(r"\b(?:pb|x)(?:\.[A-Za-z_]\w*)+", answer)]


def find_suggested_name(path: str) -> Any:
    """What a name that begins with `pb` or `x` stands for; an AttributeError if it is nothing."""
    first, *rest = path.split(".")
    found: Any = sys.modules["pullback"] if first == "pb" else sys.modules["pullback"].Tensor
    for part in rest:
        found = getattr(found, part)
        if isinstance(found, property) or first == "x":  # x.T.conj: of a tensor again
            return found
    return found


def _name_sentence(owner: str, answer: str) -> str:
    """The answer of a table, unless this installation lacks what it names."""
    for path in names_in_suggestion(owner, answer):
        try:
            find_suggested_name(path)
        except AttributeError:
            return ""
    if _NAME.fullmatch(answer) and owner != "Tensor":
        return f"Write {_short_suggested_name(owner)}.{answer}."
    return answer if answer.endswith(".") else f"Write {answer}."


def _name_elsewhere(owner: str, name: str) -> str:
    """Where pullback has a name that is not where it was looked for."""
    for module in _MODULES:
        namespace = find_suggested_name(_short_suggested_name(module))
        if module != owner and name in dir(namespace):
            call = owner == "Tensor" and isinstance(getattr(namespace, name), FunctionType)
            return f"{_short_suggested_name(module)}.{name}" + ("(x, ...)" if call else "")
    tensor = sys.modules["pullback"].Tensor
    if owner != "Tensor" and hasattr(tensor, name):
        return f"x.{name}" + ("(...)" if callable(getattr(tensor, name)) else "")
    return ""


def _name_candidates(owner: str) -> list[str]:
    """The names that `owner` has."""
    holder = sys.modules["pullback"].Tensor if owner == "Tensor" else sys.modules[owner]
    return [name for name in dir(holder) if not name.startswith("_")]


def _short_suggested_name(module: str) -> str:
    return module.replace("pullback", "pb", 1)
