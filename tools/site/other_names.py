"""The table of other libraries' names, from the tables by which error messages suggest names."""

from __future__ import annotations

import importlib

import pullback as pb
from pullback.interop.numpy import NAMES
from pullback.suggestions.module_names import TABLES
from pullback.suggestions.names import suggest_name
from pullback.suggestions.tensor_names import TENSOR_NAMES
from tools.site.inventory import short

INTRO = """\
# Names of other libraries

NumPy, JAX and PyTorch have these names, and pullback has others for the same things. Errors answer
with the same table: `pb.cat` raises an `AttributeError` that says "Write pb.concat." Names that are
not listed here are either the same or do not exist.
"""


def other_names_page() -> str:
    """A table for each module, and one for the attributes of tensors."""
    tables = {owner: dict(answers) for owner, answers in TABLES.items()}
    tables["pullback"] |= {name: f"pb.{ours}" for name, ours in NAMES.items()}
    tables["Tensor"] = TENSOR_NAMES
    return INTRO + "".join(_table(owner, answers) for owner, answers in tables.items())


def _table(owner: str, names: dict[str, str]) -> str:
    prefix = "x" if owner == "Tensor" else short(owner)
    holder = pb.Tensor if owner == "Tensor" else importlib.import_module(owner)
    rows = []
    for name in sorted(names, key=str.lower):
        answer = suggest_name(owner, name)
        if answer and not hasattr(holder, name):
            rows.append(f"| `{prefix}.{name}` | {_cell(answer)} |")
    title = "Attributes of tensors" if owner == "Tensor" else f"Names looked for in `{prefix}`"
    head = "| you may look for | write |\n|---|---|\n"
    return f"\n## {title}\n\n{head}" + "\n".join(rows) + "\n" if rows else ""


def _cell(answer: str) -> str:
    """An expression as code; a sentence as it is."""
    expression = answer.removeprefix("Write ").removesuffix(".")
    text = f"`{expression}`" if answer.startswith("Write ") else answer
    return text.replace("|", "\\|")
