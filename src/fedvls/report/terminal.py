"""Curves in a terminal: dots of braille, eight to a letter, or plain ASCII where those cannot be shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

# The bit of each of a letter's 4 rows x 2 columns of dots.
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
BRAILLE = 0x2800
LETTERS = "*o+x#%@&"
COLOURS = ("bright_blue", "bright_yellow", "bright_green", "bright_magenta", "yellow", "cyan", "magenta", "white")


@dataclass(frozen=True)
class Cell:
    """A letter and the curve it belongs to; None: empty."""

    letter: str
    curve: int | None = None


def plot_cells(
    curves: Sequence[Sequence[float]], last_round: int, width: int, height: int, low: float, high: float, ascii: bool
) -> list[list[Cell]]:
    """Curves over rounds 1..last_round as rows of letters, top row first."""
    across, down = (1, 1) if ascii else (2, 4)
    columns, rows = width * across, height * down
    bits: dict[tuple[int, int], int] = {}
    owner: dict[tuple[int, int], int] = {}
    for number, curve in enumerate(curves):
        places = [
            (
                round((place - 1) / max(last_round - 1, 1) * (columns - 1)),
                round((1 - (min(max(value, low), high) - low) / ((high - low) or 1)) * (rows - 1)),
            )
            for place, value in enumerate(curve, 1)
        ]
        for x, y in _joined(places):
            cell = (y // down, x // across)
            bits[cell] = bits.get(cell, 0) | DOTS[y % down][x % across]
            owner[cell] = number
    return [
        [
            Cell(LETTERS[owner[row, k] % len(LETTERS)] if ascii else chr(BRAILLE + bits[row, k]), owner[row, k])
            if (row, k) in owner
            else Cell(" ")
            for k in range(width)
        ]
        for row in range(height)
    ]


def _joined(places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The dots on the straight lines between neighbours."""
    dots = list(places[:1])
    for (x0, y0), (x1, y1) in pairwise(places):
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        dots += [(round(x0 + (x1 - x0) * k / steps), round(y0 + (y1 - y0) * k / steps)) for k in range(1, steps + 1)]
    return dots


def bounds(curves: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Lowest and highest value, opened to whole tens of percent."""
    values = [value for curve in curves for value in curve]
    if not values:
        return 0.0, 1.0
    low, high = int(min(values) * 10) / 10, -(-int(max(values) * 1000) // 100) / 10
    return low, max(high, low + 0.1)
