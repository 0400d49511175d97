"""Line charts as SVG, with the standard library alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 76, 28, 64, 60  # margins around the plot
COLOURS = ("#2563eb", "#ea580c", "#059669", "#7c3aed")

STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #475569 }
  .title { font-size: 17px; font-weight: 600; fill: #0f172a }
  .grid { stroke: #e2e8f0 }
  .axis { stroke: #94a3b8 }
  .line { fill: none; stroke-width: 2.25; stroke-linejoin: round; stroke-linecap: round }
"""  # noqa: E501

Point = tuple[float, float]


def line_chart(
    path: Path, lines: dict[str, Sequence[Point]], title: str, x_label: str, y_label: str
) -> None:
    """Write named lines of (x, y) points; the y axis is logarithmic if all y are positive."""
    xs = [x for points in lines.values() for x, _ in points]
    ys = [y for points in lines.values() for _, y in points]
    x_ticks = chart_round_numbers(min(xs), max(xs))
    positive = min(ys) > 0
    scaled = math.log if positive else float
    y_ticks = (
        chart_powers(min(ys), max(ys)) if positive else chart_round_numbers(min(ys), max(ys), 6)
    )
    low, high = scaled(min([*ys, *y_ticks])), scaled(max([*ys, *y_ticks]))
    first, last = min(xs), max(xs)

    def across(x: float) -> float:
        return LEFT + (x - first) / ((last - first) or 1) * (WIDTH - LEFT - RIGHT)

    def up(y: float) -> float:
        return HEIGHT - BOTTOM - (scaled(y) - low) / ((high - low) or 1) * (HEIGHT - TOP - BOTTOM)

    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = [chart_text(LEFT, 32, title, "start", "title")]
    for y in y_ticks:
        parts.append(chart_rule(LEFT, up(y), right, up(y), "grid"))
        parts.append(chart_text(LEFT - 10, up(y) + 4.5, f"{y:g}", "end"))
    parts.append(chart_rule(LEFT, bottom, right, bottom, "axis"))
    for x in x_ticks:
        parts.append(chart_rule(across(x), bottom, across(x), bottom + 5, "axis"))
        parts.append(chart_text(across(x), bottom + 21, f"{x:g}", "middle"))
    parts.append(chart_text((LEFT + right) / 2, HEIGHT - 14, x_label, "middle"))
    middle = (TOP + bottom) / 2
    turned = f'transform="rotate(-90 20 {middle:g})"'
    parts.append(chart_text(20, middle, y_label, "middle", extra=turned))

    key = float(right)
    for (name, points), colour in reversed(list(zip(lines.items(), COLOURS, strict=False))):
        drawn = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in points)
        parts.append(f'<polyline class="line" stroke="{colour}" points="{drawn}"/>')
        parts.append(chart_text(key, 32, name, "end"))
        key -= 6.5 * len(name) + 26
        parts.append(f'<path class="line" stroke="{colour}" d="M{key:.1f} 27.5h18"/>')
        key -= 18
    body = "\n".join(parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{escape(title)}">\n'
        f"<style>{STYLE}</style>\n"
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>\n{body}\n</svg>\n',
        encoding="utf-8",
    )


def chart_round_numbers(low: float, high: float, about: int = 8) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten, about as many as asked for."""
    rough = (high - low) / about or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
    return [step * i for i in range(math.ceil(low / step), math.floor(high / step + 1e-9) + 1)]


def chart_powers(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten that frame a range; powers alone when it is wide."""
    wide = math.log10(high / low) > 2.5
    candidates = [
        m * 10.0**k
        for k in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for m in ((1,) if wide else (1, 2, 5))
    ]
    below = max((c for c in candidates if c <= low), default=candidates[0])
    above = min((c for c in candidates if c >= high), default=candidates[-1])
    return [c for c in candidates if below <= c <= above]


def chart_rule(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def chart_text(
    x: float, y: float, content: str, anchor: str, kind: str = "label", extra: str = ""
) -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {extra}>'
        f"{escape(content)}</text>"
    )
