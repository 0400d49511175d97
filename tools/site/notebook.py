"""The notebook of the tour: run its cells, store what they show, and write it as a page."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

Cell = dict[str, Any]


def run_cells(cells: list[Cell]) -> list[list[dict[str, Any]]]:
    """Run the code cells in one namespace, as a notebook does; return the outputs of each."""
    names: dict[str, Any] = {"__name__": "__main__"}
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    return [_outputs("".join(cell["source"]), names, n + 1) for n, cell in enumerate(code)]


def _outputs(source: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """What a cell prints, and the value of its last line if that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    found: list[dict[str, Any]] = []
    if printed.getvalue():
        found.append(
            {"output_type": "stream", "name": "stdout", "text": _lines(printed.getvalue())}
        )
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        if hasattr(value, "_repr_svg_"):
            text = f"<{type(value).__name__}>"  # the address of the object is of no use
            data = {"image/svg+xml": _lines(value._repr_svg_()), "text/plain": [text]}
        found.append({"output_type": "execute_result", "execution_count": number, "data": data,
                      "metadata": {}})  # fmt: skip
    return found


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def store_outputs(path: Path) -> None:
    """Run a notebook and write it again, with its outputs."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    outputs = iter(run_cells(notebook["cells"]))
    number = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            number += 1
            cell |= {"outputs": next(outputs), "execution_count": number}
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def as_page(path: Path) -> str:
    """The notebook as Markdown, with the outputs that it stores."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n".join(map(_cell_text, cells))


def _cell_text(cell: Cell) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return f"{source}\n"
    return "\n".join([f"```python\n{source}\n```\n", *map(_output_text, cell["outputs"])])


def _output_text(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "image/svg+xml" in data:
        return f'<div class="output">{"".join(data["image/svg+xml"])}</div>\n'
    text = "".join(output.get("text") or data["text/plain"]).rstrip("\n")
    return f"```{{code-block}} text\n:class: output\n\n{text}\n```\n"


if __name__ == "__main__":
    store_outputs(Path(sys.argv[1]))
