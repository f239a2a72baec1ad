"""The figures that `fedvls plot` draws, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ...errors import unknown
from .files import PAPER, WIDTHS, check_ending, save, style
from .lines import curves_figure, drift_figure
from .local import classes_figure, groups_figure
from .matrices import confusion_figure, heat_map_figure
from .speed import speed_figure
from .view import View

Width = Literal["column", "page"]


@dataclass(frozen=True)
class Kind:
    """A figure: its name, how wide it is unless told, and what draws it."""

    name: str
    width: Width
    build: Callable[[Any, View, float], Any]

    @property
    def summary(self) -> str:
        return (self.build.__doc__ or "").strip().splitlines()[0]


KINDS = {
    kind.name: kind
    for kind in (
        Kind("curves", "column", curves_figure),
        Kind("classwise", "page", classes_figure),
        Kind("groups", "page", groups_figure),
        Kind("heatmap", "column", heat_map_figure),
        Kind("confusion", "page", confusion_figure),
        Kind("drift", "column", drift_figure),
        Kind("speed", "page", speed_figure),
    )
}


def find_kind(name: str) -> Kind:
    """The kind of this name, or an error with the nearest."""
    if name not in KINDS:
        raise unknown("figure", name, KINDS)
    return KINDS[name]


def draw(kind: Kind, view: View, path: Path, width: Width | None = None) -> Path:
    """Draw the figure into this file, in the look of a paper."""
    check_ending(path)
    with style(PAPER) as plots:
        return save(kind.build(plots, view, WIDTHS[width or kind.width]), path)
