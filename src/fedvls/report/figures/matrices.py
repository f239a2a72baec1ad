"""Shaded tables: who has what, and confusion."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import RunError
from ...partition import Split
from .files import SCREEN, save, style
from .view import View, clipped

HATCH = "#c8c8c8"


def partition_heat_map(split: Split, class_names: Sequence[str], title: str, path: Path) -> Path:
    """Client x class sample counts on a logarithmic scale; vacant cells are hatched."""
    clients, classes = split.counts.shape
    size = (1.8 + 0.55 * min(classes, 40), 1.4 + 0.38 * min(clients, 60))
    with style(SCREEN) as plots:
        figure, axes = plots.subplots(figsize=size)
        draw_counts(figure, axes, split.counts, class_names, 7)
        axes.set_title(title, fontsize=10, pad=22)
        return save(figure, path)


def draw_counts(figure: Any, axes: Any, counts: np.ndarray, class_names: Sequence[str], size: float) -> None:
    """The table of counts with its scale and the meaning of the hatching."""
    from matplotlib.colors import LogNorm
    from matplotlib.patches import Patch, Rectangle

    most = max(int(counts.max()), 2)
    image = axes.imshow(np.ma.masked_equal(counts, 0), cmap="viridis_r", norm=LogNorm(1, most), aspect="auto")
    labelled = counts.size <= 400
    for client, label in np.ndindex(*counts.shape):
        count = int(counts[client, label])
        if count == 0:
            place = (label - 0.5, client - 0.5)
            axes.add_patch(Rectangle(place, 1, 1, fill=False, hatch="////", edgecolor=HATCH, linewidth=0))
        elif labelled:
            dark = np.log(count) > 0.55 * np.log(most)
            axes.text(label, client, count, ha="center", va="center", fontsize=size, color="white" if dark else "black")
    _name_columns(axes, class_names)
    if len(counts) <= 60:
        axes.set_yticks(range(len(counts)))
    axes.set_xlabel("class")
    axes.set_ylabel("client")
    figure.colorbar(image, ax=axes, label="samples", format="%d").minorticks_off()
    hatch = Patch(facecolor="white", edgecolor=HATCH, hatch="////", label="vacant: no sample")
    axes.legend(handles=[hatch], loc="lower left", bbox_to_anchor=(0, 1), frameon=False)


def heat_map_figure(plots: Any, view: View, width: float) -> Any:
    """Samples per client and class, vacant cells hatched."""
    held = view.partition()
    counts = np.asarray(held["counts"])
    if counts.size == 0:
        raise RunError("a deployment has no heat map: class counts do not leave the sites")
    names = 0.8 if max(map(len, held["class_names"])) > 3 else 0.0  # turned, they need height
    figure, axes = plots.subplots(figsize=(width, 0.7 + names + min(0.2 * len(counts), 6)))
    draw_counts(figure, axes, counts, held["class_names"], 5.5 if width < 5 else 7)
    figure.tight_layout(pad=0.3)
    return figure


def confusion_figure(plots: Any, view: View, width: float) -> Any:
    """One client's confusion matrix under every method, in percent of the true class."""
    client, found = view.confusion()
    held = view.partition()
    names, vacant = held["class_names"], np.asarray(held["counts"])[int(client)] == 0
    columns = min(len(found), 2 if width < 5 else 4)
    rows = -(-len(found) // columns)
    side = width / columns
    figure, grid = plots.subplots(rows, columns, figsize=(width, rows * (side + 0.1)), squeeze=False)
    for axes in grid.flat[len(found) :]:
        axes.set_visible(False)
    for place, (axes, (group, run)) in enumerate(zip(grid.flat, found, strict=False)):
        matrix = np.asarray(run["confusion"][client]["matrix"], dtype=float)
        share = 100 * matrix / np.maximum(matrix.sum(1, keepdims=True), 1)
        axes.imshow(share, cmap="Blues", vmin=0, vmax=100)
        for true, said in np.ndindex(*share.shape) if len(names) <= 12 else ():
            if share[true, said] >= 1:
                ink = "white" if share[true, said] > 55 else "black"
                text = f"{share[true, said]:.0f}"
                axes.text(said, true, text, ha="center", va="center", fontsize=4.5 if columns > 2 else 5, color=ink)
        axes.set_title(f"{group.name}, {np.trace(matrix) / matrix.sum():.0%} right")
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        _name_columns(axes, names)
        if len(names) <= 40:
            axes.set_yticks(range(len(names)), _marked(names, vacant))
        axes.set_xlabel(f"predicted by client {client}")
        if place % columns == 0:
            axes.set_ylabel("true class (∅: vacant there)")
    figure.tight_layout(pad=0.4)
    return figure


def _name_columns(axes: Any, names: Sequence[str]) -> None:
    if len(names) <= 40:
        turned = 0 if max(map(len, names)) < 4 else 60
        axes.set_xticks(range(len(names)), [clipped(name, 14) for name in names], rotation=turned)


def _marked(names: Sequence[str], vacant: np.ndarray) -> list[str]:
    return [f"∅ {clipped(name, 8)}" if none else clipped(name, 8) for name, none in zip(names, vacant, strict=True)]
