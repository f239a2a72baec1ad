"""What one local update does to classes a client lacks, has few of, has many of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import RunError
from ...groups import GROUPS, mean_per_class
from .files import SCREEN, save, style
from .view import Group, View, clipped, is_deployed, mean_known

BEFORE = "#b8b8b8"
COLOURS = {"vacant": "#d55e00", "minority": "#0072b2", "majority": "#009e73"}
HATCHES = {"vacant": "//", "minority": "..", "majority": ""}
MEANING = {
    "vacant": "classes the client lacks",
    "minority": "classes it has few of",
    "majority": "classes it has many of",
}
# Per method: accuracy per class before, after for each group, and the groups' means before and after.
Effect = dict[str, Any]


def local_effect(
    local: dict[str, dict[str, Any]], counts: np.ndarray, class_names: Sequence[str], title: str, path: Path
) -> Path:
    """Per class, the accuracy before and after one local update, by what the class is to the client.

    `local` maps a method's title to the "local" part of a round's metrics. Rows: vacant, minority, majority classes;
    columns: methods; bars: mean over the clients to which the class is that.
    """
    effects = {
        method: {
            "classes": {
                "before": report["before_per_class"],
                **{group: mean_per_class(report["clients"], counts, group) for group in GROUPS},
            },
            "before": report["before"],
            "after": report["after"],
        }
        for method, report in local.items()
    }
    with style(SCREEN) as plots:
        figure = draw_classes(plots, effects, class_names, (3.1 * len(local), 6.2), 9)
        figure.suptitle(title, fontsize=11)
        figure.tight_layout(rect=(0, 0.045, 1, 0.99))
        return save(figure, path)


def draw_classes(
    plots: Any, effects: Mapping[str, Effect], class_names: Sequence[str], size: tuple[float, float], text: float
) -> Any:
    """Rows: groups; columns: methods; bars: classes."""
    figure, grid = plots.subplots(len(GROUPS), len(effects), figsize=size, sharex=True, sharey=True, squeeze=False)
    for column, (method, effect) in enumerate(effects.items()):
        for row, group in enumerate(GROUPS):
            axes = grid[row][column]
            _bars(axes, effect, group, text)
            if row == 0:
                axes.set_title(method, fontsize=text + 3 if text > 8 else text, pad=2.4 * text)
            if column == 0:
                axes.set_ylabel(f"{group}\n({MEANING[group]})\naccuracy, %", fontsize=text - 1)
            axes.set_ylim(0, 100)
    every = -(-len(class_names) // 20)
    for axes in grid[-1]:
        shown = [clipped(name, 14) for name in class_names[::every]]
        turned = 0 if max(map(len, shown)) < 4 else 60
        axes.set_xticks(range(0, len(class_names), every), shown, fontsize=text - 1, rotation=turned)
        axes.set_xlabel("class", fontsize=text)
    handles = [plots.Rectangle((0, 0), 1, 1, color=BEFORE)]
    handles += [plots.Rectangle((0, 0), 1, 1, color=COLOURS[g]) for g in GROUPS]
    labels = ["before: the global model they all start from", *(f"after local training, {g}" for g in GROUPS)]
    figure.legend(handles, labels, loc="lower center", ncols=4 if size[0] > 5 else 1, frameon=False, fontsize=text)
    return figure


def _bars(axes: Any, effect: Effect, group: str, text: float) -> None:
    before = np.asarray(effect["classes"]["before"], dtype=float)
    after = np.asarray(effect["classes"][group], dtype=float)
    there = ~np.isnan(after)
    places = np.arange(len(after))
    axes.bar(places[there] - 0.2, 100 * before[there], 0.4, color=BEFORE)
    look = {"color": COLOURS[group], "hatch": HATCHES[group], "edgecolor": "white", "linewidth": 0}
    axes.bar(places[there] + 0.2, 100 * after[there], 0.4, **look)
    mean_before, mean_after = effect["before"][group], effect["after"][group]
    if mean_before is not None and mean_after is not None:
        told = f"mean {100 * mean_before:.0f} → {100 * mean_after:.0f} %"
        axes.text(0.5, 1.03, told, transform=axes.transAxes, ha="center", fontsize=text, fontweight="bold")


def classes_figure(plots: Any, view: View, width: float) -> Any:
    """Accuracy per class before and after the last local update, in three groups."""
    effects = {group.name: _mean_effect(group) for group in view.groups}
    narrow = width < 5
    figure = draw_classes(plots, effects, view.partition()["class_names"], (width, 4.6 if narrow else 4.2), 7 - narrow)
    figure.tight_layout(rect=(0, 0.12 if narrow else 0.05, 1, 1), pad=0.3)
    return figure


def groups_figure(plots: Any, view: View, width: float) -> Any:
    """Mean accuracy of vacant, minority and majority classes before and after the last local update."""
    effects = [(group, _mean_effect(group)) for group in view.groups]
    stacked = width < 5
    size = (width, 0.55 + (3 if stacked else 1) * (0.3 + 0.22 * len(effects)))
    rows, columns = (3, 1) if stacked else (1, 3)
    figure, grid = plots.subplots(rows, columns, figsize=size, sharex=True, sharey=True, squeeze=False)
    for axes, kind in zip(grid.flat, GROUPS, strict=True):
        for place, (group, effect) in enumerate(effects):
            before, after = effect["before"][kind], effect["after"][kind]
            if before is None or after is None:
                continue
            axes.plot([100 * before, 100 * after], [place, place], color=group.colour)
            axes.plot(100 * before, place, "o", color="white", markeredgecolor="#555555", zorder=3)
            axes.plot(100 * after, place, group.marker, color=group.colour, markersize=4.5, zorder=4)
        axes.set_title(f"{kind}: {MEANING[kind]}")
        axes.set_xlim(-3, 103)
        axes.set_yticks(range(len(effects)), [group.name for group, _ in effects])
        axes.grid(axis="x", color="#e6e6e6", linewidth=0.5)
        axes.set_axisbelow(True)
    grid[0][0].set_ylim(len(effects) - 0.5, -0.5)
    for axes in grid[-1]:
        axes.set_xlabel("accuracy, %: ○ before, filled after")
    figure.tight_layout(pad=0.4)
    return figure


def _mean_effect(group: Group) -> Effect:
    """The last evaluated round, mean over seeds."""
    last = [run["local"][-1] for run in group.runs if run["local"]]
    if not last and all(map(is_deployed, group.runs)):
        raise RunError(f"{group.label} is a deployment: the accuracy of local models per class stays at the sites")
    if not last:
        raise RunError(f"{group.label} has no round in which its clients were evaluated (see local_every)")
    classes = {
        kind: [mean_known(values) for values in zip(*(one["classes"][kind] for one in last), strict=True)]
        for kind in ("before", *GROUPS)
    }
    moments = {
        moment: {kind: mean_known([one[moment][kind] for one in last]) for kind in GROUPS}
        for moment in ("before", "after")
    }
    return {"classes": classes, **moments}
