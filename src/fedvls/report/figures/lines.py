"""Lines over rounds: convergence and drift."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import RunError
from .files import SCREEN, save, style
from .view import Group, Run, View, band_of, is_deployed

Points = Callable[[Run], Sequence[tuple[int, float]]]


def convergence(curves: dict[str, list[list[float]]], title: str, path: Path) -> Path:
    """Accuracy over rounds, a line per method; seeds as a band from the worst to the best."""
    groups = [
        Group(name, place, [{"curves": {"accuracy": seed}} for seed in seeds])
        for place, (name, seeds) in enumerate(curves.items())
    ]
    with style(SCREEN) as plots:
        figure, axes = plots.subplots(figsize=(6.4, 4))
        draw_lines(axes, groups, accuracy_points, "test accuracy, %")
        axes.set_title(title, fontsize=10)
        handles, _ = axes.get_legend_handles_labels()
        names = [textwrap.fill(group.label, 24) for group in groups]
        axes.legend(handles, names, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))  # curves fill the frame
        return save(figure, path)


def accuracy_points(run: Run) -> list[tuple[int, float]]:
    """Accuracy in percent after every round."""
    return [(place, 100 * value) for place, value in enumerate(run["curves"]["accuracy"], 1)]


def drift_points(run: Run) -> list[tuple[int, float]]:
    """Drift diversity in the rounds in which clients were evaluated."""
    return [(local["round"], local["drift"]) for local in run["local"] if local["drift"] is not None]


def draw_lines(axes: Any, groups: Sequence[Group], points: Points, label: str) -> None:
    """One line per group with its band, dash and a few markers."""
    for place, group in enumerate(groups):
        rounds, mean, low, high = band_of(group.runs, points)
        gap = max(1, -(-len(rounds) // 6))
        first = place * gap // max(1, len(groups))
        look = {"color": group.colour, "linestyle": group.dash, "marker": group.marker}
        axes.plot(rounds, mean, markevery=(first, gap), label=group.name, **look)
        if len(group.runs) > 1:
            axes.fill_between(rounds, low, high, color=group.colour, alpha=0.14, linewidth=0)
    axes.xaxis.get_major_locator().set_params(integer=True)  # there is no round 1.5
    axes.set_xlabel("round")
    axes.set_ylabel(label)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.5)
    axes.set_axisbelow(True)


def curves_figure(plots: Any, view: View, width: float) -> Any:
    """Test accuracy over rounds."""
    return _figure(plots, view, width, accuracy_points, "test accuracy, %")


def drift_figure(plots: Any, view: View, width: float) -> Any:
    """Drift diversity over rounds."""
    runs = [run for group in view.groups for run in group.runs]
    if not any(map(drift_points, runs)):
        why = "it is measured in simulated runs only" if all(map(is_deployed, runs)) else "see local_every"
        raise RunError(f"no round of these runs has a drift diversity: {why}")
    figure = _figure(plots, view, width, drift_points, "drift diversity")
    axes = figure.axes[0]
    axes.set_ylim(0, np.ceil(axes.get_ylim()[1] * 10) / 10)
    return figure


def _figure(plots: Any, view: View, width: float, points: Points, label: str) -> Any:
    figure, axes = plots.subplots(figsize=(width, 0.62 * min(width, 4.4) + 0.25))
    draw_lines(axes, view.groups, points, label)
    longest = max(len(group.name) for group in view.groups)
    columns = max(1, min(len(view.groups), int(width / (0.42 + 0.055 * longest))))
    figure.legend(
        *axes.get_legend_handles_labels(),
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncols=columns,
        frameon=False,
        handlelength=2.6,
        columnspacing=1.2,
    )
    figure.tight_layout(pad=0.3)
    return figure
