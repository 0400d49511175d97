"""Profiles as flame graphs: bars in bars, as wide as the time they stand for."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pullback.graph.html import escape_html

if TYPE_CHECKING:
    from pullback.debug.profile_report import ProfileReport, ProfileRow

_STYLE = """
body { font: 13px sans-serif; margin: 16px; color: #222; }
.bar { box-sizing: border-box; overflow: hidden; min-width: 0; }
.bar span { display: block; overflow: hidden; white-space: nowrap; text-overflow: ellipsis;
  cursor: pointer; border: 1px solid #fff; border-radius: 3px; padding: 2px 4px; height: 16px; }
.bar span:hover { filter: brightness(0.9); }
.row { display: flex; }
table { border-collapse: collapse; margin-top: 16px; }
td, th { text-align: left; padding: 2px 8px; border-bottom: 1px solid #ddd; }
td:nth-child(-n+3), th:nth-child(-n+3) { text-align: right; }
td:nth-child(n+4) { font-family: monospace; }
"""
# Written without the characters that XML reserves. A click shows one bar, in its full width, with
# those around it; another click on it shows all again.
_SCRIPT = """
var all = Array.from(document.querySelectorAll(".bar")), shown = null;
function show(bar) {
  all.forEach(function (b) { b.style.display = ""; b.style.flexBasis = b.dataset.width; });
  shown = bar === shown ? null : bar;
  for (var b = shown; b; b = b.parentElement.closest(".bar")) {
    b.style.flexBasis = "100%";
    Array.from(b.parentElement.children).forEach(function (other) {
      if (other !== b) { other.style.display = "none"; }
    });
  }
}
all.forEach(function (b) {
  b.firstElementChild.addEventListener("click", function () { show(b); });
});
"""


@dataclass
class FlameBar:
    """A bar of a flame graph, with the bars below it."""

    name: str
    hint: str = ""
    seconds: float = 0.0
    below: dict[str, FlameBar] = field(default_factory=dict)

    def add(self, path: Iterable[tuple[str, str]], seconds: float) -> None:
        """Add time along a path of names with hints."""
        bar = self
        bar.seconds += seconds
        for name, hint in path:
            bar = bar.below.setdefault(name, FlameBar(name, hint))
            bar.seconds += seconds

    def html(self, whole: float, outer: float) -> str:
        """The bar, as wide as its part of the `outer` one."""
        width = f"{100 * self.seconds / outer:.4f}%" if outer else "100%"
        share = self.seconds / whole if whole else 0.0
        facts = f"{self.name}: {1e3 * self.seconds:.3f} ms, {share:.1%}"
        title = escape_html(f"{facts}, {self.hint}" if self.hint else facts)
        inner = sorted(self.below.values(), key=lambda b: -b.seconds)
        rows = "".join([b.html(whole, self.seconds) for b in inner])
        below = f'<div class="row">{rows}</div>' if rows else ""
        return (
            f'<div class="bar" data-width="{width}" style="flex: 0 0 {width}">'
            f'<span title="{title}" style="background: {_flame_colour(self.name)}">'
            f"{escape_html(self.name)}</span>{below}</div>"
        )


def flame_bars(profile: ProfileReport) -> FlameBar:
    """The time of a profile by function, line, op and kernel."""
    root = FlameBar(profile.name, profile.headline)
    for row in profile.rows:
        path = _flame_path(row)
        for kernel, seconds in row.kernels:
            root.add([*path, (kernel, "kernel of XLA")], seconds)
        if not row.kernels:
            root.add([(row.op, "")], row.seconds)
    return root


def _flame_path(row: ProfileRow) -> list[tuple[str, str]]:
    if not row.line:
        return [("(no line)", "gradients of arguments, or made by XLA"), (row.title, "")]
    function = [(row.function, "")] if row.function else []
    return [*function, (row.line, row.source), (row.title, "")]


def _flame_colour(name: str) -> str:
    """A warm colour, the same for equal names."""
    number = zlib.crc32(name.encode())
    return f"hsl({number % 55}, {60 + number // 64 % 25}%, {66 + number // 4096 % 14}%)"


def flame_page(profile: ProfileReport) -> str:
    """A page with the flame graph and the table of a profile."""
    root = flame_bars(profile)
    title = escape_html(f"Profile of {profile.name}")
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{title}</h1><p>{escape_html(profile.headline)}</p>"
        f'<div class="row">{root.html(root.seconds, root.seconds)}</div>'
        f"{profile.html_rows(len(profile.rows))}<script>{_SCRIPT}</script></body></html>\n"
    )
