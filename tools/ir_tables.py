"""Write the tables of docs/ir.md from the op table and the catalogue: `make docs-tables`."""

from __future__ import annotations

import sys
from pathlib import Path

from pullback.static.autodiff import FORWARD_ONLY
from pullback.static.catalogue import CATALOGUE
from pullback.static.descriptions import described_instructions
from pullback.static.profiles import CORE, EXTENDED


def instructions_table() -> str:
    """Every instruction, as a Markdown table."""
    rows = ["| instruction | profile | dtypes | derivative |", "|---|---|---|---|"]
    for e in described_instructions():
        formulas = "-" if e.derivative is None else "; ".join(map(_quoted, e.derivative))
        if e.name in FORWARD_ONLY:
            formulas = f"{CORE}: E5001; {EXTENDED}: {formulas}"
        rows.append(_row(f"`{e.example}`<br>{e.summary}", e.profile, e.types, formulas))
    return "\n".join(rows)


def _quoted(formula: str) -> str:
    """A formula as code; a description stays as it is."""
    return formula if formula.startswith(("by ", "none: ")) else f"`{formula}`"


def _row(*cells: str) -> str:
    return f"| {' | '.join([c.replace('|', '&#124;') for c in cells])} |"


def errors_table() -> str:
    """The catalogue of errors, as a Markdown table."""
    rows = ["| code | title | meaning |", "|---|---|---|"]
    for e in CATALOGUE.values():
        reserved = " (reserved: it cannot occur)" if e.reserved else ""
        rows.append(_row(e.code, e.title, f"{e.meaning}{reserved}"))
    return "\n".join(rows)


def updated(page: str) -> str:
    """The page with new tables between its markers."""
    for name, write in (("instructions", instructions_table), ("errors", errors_table)):
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        before, after = page.index(begin) + len(begin), page.index(end)
        page = f"{page[:before]}{write()}\n{page[after:]}"
    return page


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(updated(path.read_text(encoding="utf-8")), encoding="utf-8")
