"""Ratios as a bar chart, in SVG: one bar a row on a logarithmic axis, to the right of the line at 1 where ours is faster."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from ...ir.record import record

WIDTH, LABEL, BAR, GAP, TOP, BOTTOM = 860, 320, 16, 6, 56, 44
FASTER, SLOWER, TIE = "#2b7a4b", "#b5482f", "#8a8f98"
_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


@record
class Bar:
    label: str
    ratio: float  # the best peer's time over ours
    peer: str
    tie: bool = False


def chart(title: str, subtitle: str, bars: Sequence[Bar]) -> str:
    """The whole document.  Colours do not carry meaning alone: every bar has its number and stands left or right of 1."""
    reach = [math.log(b.ratio) for b in bars] or [0.0]
    low, high = min(-0.2, *reach), max(0.7, *reach)
    room = WIDTH - LABEL - 150

    def place(ratio: float) -> float:
        return LABEL + 20 + (math.log(ratio) - low) / (high - low) * room

    height = TOP + len(bars) * (BAR + GAP) + BOTTOM
    foot = height - BOTTOM + 4
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12" role="img">',
        f"  <title>{escape(title)}</title>",
        f'  <rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'  <text x="16" y="22" font-size="15" font-weight="bold" fill="#1c1f24">{escape(title)}</text>',
        f'  <text x="16" y="40" fill="#565b64">{escape(subtitle)}</text>',
    ]
    for tick in _TICKS:
        if low <= math.log(tick) <= high:
            x = place(tick)
            strong = ' stroke="#1c1f24" stroke-width="1.2"' if tick == 1 else ' stroke="#d9dce1"'
            lines.append(f'  <line x1="{x:.1f}" y1="{TOP - 4}" x2="{x:.1f}" y2="{foot}"{strong}/>')
            lines.append(f'  <text x="{x:.1f}" y="{foot + 16}" text-anchor="middle" fill="#565b64">{tick:g}×</text>')
    for k, b in enumerate(bars):
        y = TOP + k * (BAR + GAP)
        left, right = sorted((place(1), place(b.ratio)))
        colour = TIE if b.tie else FASTER if b.ratio >= 1 else SLOWER
        lines.append(f'  <text x="{LABEL + 10}" y="{y + 12}" text-anchor="end" fill="#1c1f24">{escape(b.label)}</text>')
        lines.append(f'  <rect x="{left:.1f}" y="{y}" width="{max(right - left, 1):.1f}" height="{BAR}" fill="{colour}"/>')
        said = f"{b.ratio:.2f}× {b.peer}" + (" (a tie)" if b.tie else "")
        lines.append(f'  <text x="{max(right, place(1)) + 6:.1f}" y="{y + 12}" fill="#1c1f24">{escape(said)}</text>')
    lines.append(
        f'  <text x="{place(1):.1f}" y="{foot + 32}" text-anchor="middle" fill="#565b64">time of the best peer over ours: right of 1 ours is faster</text>'
    )
    return "\n".join([*lines, "</svg>", ""])
