"""A chart of factors as an SVG file: one line for each workload, one bar for each peer."""

from __future__ import annotations

import math
from xml.sax.saxutils import escape

from benchmarks.suite import Row
from benchmarks.workload import LIBRARIES

LEFT, RIGHT, TOP, BAR, GAP = 470, 60, 70, 11, 12
WIDTH = 1000
LOWEST, HIGHEST = 1 / 8, 8.0  # longer bars are cut off; the figure beside them is exact
COLORS = {"jax": "#4c72b0", "torch": "#dd8452", "torch.compile": "#937860"}
FONT = "font-family='sans-serif' font-size='12'"


def place(ratio: float) -> float:
    """The horizontal position of a ratio, on a logarithmic scale."""
    share = math.log(min(max(ratio, LOWEST), HIGHEST) / LOWEST) / math.log(HIGHEST / LOWEST)
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def chart(rows: list[Row]) -> str:
    shown = [(row, bars(row)) for row in rows if not row.problem]
    shown = [(row, found) for row, found in shown if found]
    height = TOP + sum(len(found) * BAR + GAP for _, found in shown) + 10
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' {FONT}>",
        f"<rect width='{WIDTH}' height='{height}' fill='white'/>",
        text(10, 20, "Time of pullback divided by that of other libraries: shorter is better"),
        *legend({peer for _, found in shown for peer, _ in found}),
        *scale(height),
    ]
    y = TOP
    for row, found in shown:
        middle = y + len(found) * BAR / 2 + 4
        parts.append(text(LEFT - 45, middle, row.workload.title, anchor="end"))
        for peer, ratio in found:
            parts += bar(y, peer, ratio)
            y += BAR
        y += GAP
    return "\n".join([*parts, "</svg>", ""])


def bars(row: Row) -> list[tuple[str, float]]:
    found = [(peer, row.ratio(peer)) for peer in COLORS]
    return [(peer, ratio) for peer, ratio in found if ratio is not None]


def bar(y: float, peer: str, ratio: float) -> list[str]:
    """A bar from 1 to the ratio, and the ratio as a number at its end."""
    one, end = place(1.0), place(ratio)
    left, width = min(one, end), abs(end - one)
    rect = f"<rect x='{left:.1f}' y='{y}' width='{width:.1f}' height='{BAR - 2}'"
    aside = text(end + 4, y + 9, f"{ratio:.2f}", size=10)
    if ratio < 1:
        aside = text(end - 4, y + 9, f"{ratio:.2f}", anchor="end", size=10)
    return [f"{rect} fill='{COLORS[peer]}'/>", aside]


def scale(height: float) -> list[str]:
    """Vertical lines at powers of two; the one at 1 is dark."""
    parts = []
    for power in range(-3, 4):
        x = place(2.0**power)
        color = "#222" if power == 0 else "#ddd"
        parts.append(
            f"<line x1='{x:.1f}' y1='{TOP - 8}' x2='{x:.1f}' y2='{height}' stroke='{color}'/>"
        )
        parts.append(text(x, TOP - 14, f"{2.0**power:g}", anchor="middle"))
    return parts


def legend(peers: set[str]) -> list[str]:
    parts, x = [], 10.0
    for peer, color in COLORS.items():
        if peer in peers:
            parts.append(f"<rect x='{x}' y='34' width='12' height='12' fill='{color}'/>")
            parts.append(text(x + 18, 44, f"x {LIBRARIES[peer]}"))
            x += 110
    return parts


def text(x: float, y: float, words: str, anchor: str = "start", size: int = 12) -> str:
    place = f"x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' font-size='{size}'"
    return f"<text {place}>{escape(words)}</text>"
