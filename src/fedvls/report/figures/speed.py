"""The clock: seconds per round and samples per second."""

from __future__ import annotations

from typing import Any

import numpy as np

from .view import View

MEASURES = {"seconds": "seconds per round (median)", "samples_per_second": "training samples per second (median)"}


def speed_figure(plots: Any, view: View, width: float) -> Any:
    """Median seconds per round and training samples per second; dots are single runs."""
    stacked = width < 5
    rows, columns = (2, 1) if stacked else (1, 2)
    size = (width, 0.4 + (2 if stacked else 1) * (0.35 + 0.2 * len(view.groups)))
    figure, grid = plots.subplots(rows, columns, figsize=size, sharey=True, squeeze=False)
    for axes, (key, title) in zip(grid.flat, MEASURES.items(), strict=True):
        for place, group in enumerate(view.groups):
            each = [float(np.median(run[key])) for run in group.runs if run[key]]
            if each:
                axes.barh(place, np.mean(each), 0.6, color=group.colour, alpha=0.85)
                axes.plot(each, [place] * len(each), "|", color="black", markersize=7)
        axes.set_xlabel(title)
        axes.set_yticks(range(len(view.groups)), [group.name for group in view.groups])
        axes.grid(axis="x", color="#e6e6e6", linewidth=0.5)
        axes.set_axisbelow(True)
    grid[0][0].set_ylim(len(view.groups) - 0.5, -0.5)
    figure.tight_layout(pad=0.4)
    return figure
