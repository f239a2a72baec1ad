"""Figures as files. Colours from an accessible palette; nothing is told by colour alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UsageError
from ..groups import GROUPS, class_groups
from ..partition import Split

ENDINGS = (".png", ".svg", ".pdf")
BEFORE = "#b8b8b8"
COLOURS = {"vacant": "#d55e00", "minority": "#0072b2", "majority": "#009e73"}
MEANING = {
    "vacant": "classes the client lacks",
    "minority": "classes it has few of",
    "majority": "classes it has many of",
}


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise UsageError("figures need matplotlib: install fedvls[plot]") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def check_ending(path: Path) -> None:
    """Refuse a file format that does not exist before the work is done."""
    if path.suffix not in ENDINGS:
        raise UsageError(f"cannot write a figure to {path}: its name must end in {', '.join(ENDINGS)}")


def save(figure: Any, path: Path) -> Path:
    """Write the figure; the ending decides the format."""
    check_ending(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, bbox_inches="tight")
    _pyplot().close(figure)
    return path


def partition_heat_map(split: Split, class_names: Sequence[str], title: str, path: Path) -> Path:
    """Client x class sample counts on a logarithmic scale; vacant cells are hatched."""
    pyplot = _pyplot()
    from matplotlib.colors import LogNorm
    from matplotlib.patches import Patch, Rectangle

    clients, classes = split.counts.shape
    figure, axes = pyplot.subplots(figsize=(1.8 + 0.55 * min(classes, 40), 1.4 + 0.38 * min(clients, 60)))
    shown = np.ma.masked_equal(split.counts, 0)
    image = axes.imshow(shown, cmap="viridis_r", norm=LogNorm(1, max(int(split.counts.max()), 2)), aspect="auto")
    labelled = clients * classes <= 400
    for client, label in np.ndindex(clients, classes):
        count = int(split.counts[client, label])
        if count == 0:
            box = Rectangle(
                (label - 0.5, client - 0.5), 1, 1, fill=False, hatch="////", edgecolor="#c8c8c8", linewidth=0
            )
            axes.add_patch(box)
        elif labelled:
            dark = np.log(count) > 0.55 * np.log(max(int(split.counts.max()), 2))
            axes.text(label, client, count, ha="center", va="center", fontsize=7, color="white" if dark else "black")
    if classes <= 40:
        axes.set_xticks(range(classes), class_names, rotation=0 if max(map(len, class_names)) < 4 else 60)
    if clients <= 60:
        axes.set_yticks(range(clients))
    axes.set_xlabel("class")
    axes.set_ylabel("client")
    axes.set_title(title, fontsize=10)
    figure.colorbar(image, ax=axes, label="samples")
    hatch = Patch(facecolor="white", edgecolor="#c8c8c8", hatch="////", label="vacant: no sample")
    axes.legend(handles=[hatch], loc="upper left", bbox_to_anchor=(0, -0.1), frameon=False)
    return save(figure, path)


def local_effect(
    local: dict[str, dict[str, Any]], counts: np.ndarray, class_names: Sequence[str], title: str, path: Path
) -> Path:
    """Per class, the accuracy before and after one local update, by what the class is to the client.

    `local` maps a method's title to the "local" part of a round's metrics. Rows: vacant, minority, majority classes;
    columns: methods; bars: mean over the clients to which the class is that.
    """
    pyplot = _pyplot()
    figure, grid = pyplot.subplots(
        len(GROUPS), len(local), figsize=(3.1 * len(local), 6.2), sharex=True, sharey=True, squeeze=False
    )
    places = np.arange(len(class_names))
    for column, (method, report) in enumerate(local.items()):
        before = np.asarray(report["before_per_class"])
        for row, group in enumerate(GROUPS):
            axes = grid[row][column]
            after = _mean_over_clients(report["clients"], counts, group)
            there = ~np.isnan(after)
            axes.bar(places[there] - 0.2, 100 * before[there], 0.4, color=BEFORE, label="global model, before")
            axes.bar(
                places[there] + 0.2,
                100 * after[there],
                0.4,
                color=COLOURS[group],
                hatch={"vacant": "//", "minority": "..", "majority": ""}[group],
                edgecolor="white",
                linewidth=0,
                label="local models, after",
            )
            mean_before, mean_after = report["before"][group], report["after"][group]
            if mean_before is not None and mean_after is not None:
                text = f"mean {100 * mean_before:.0f} → {100 * mean_after:.0f} %"
                axes.text(0.5, 1.03, text, transform=axes.transAxes, ha="center", fontsize=9, fontweight="bold")
            if row == 0:
                axes.set_title(method, fontsize=12, pad=22)
            if column == 0:
                axes.set_ylabel(f"{group}\n({MEANING[group]})\naccuracy, %", fontsize=8)
            axes.set_ylim(0, 100)
            axes.spines[["top", "right"]].set_visible(False)
    for axes in grid[-1]:
        axes.set_xticks(places, class_names, fontsize=8)
        axes.set_xlabel("class", fontsize=9)
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=BEFORE)]
    handles += [pyplot.Rectangle((0, 0), 1, 1, color=COLOURS[g]) for g in GROUPS]
    labels = ["before: the global model they all start from", *(f"after local training, {g}" for g in GROUPS)]
    figure.legend(handles, labels, loc="lower center", ncols=4, frameon=False, fontsize=9)
    figure.suptitle(title, fontsize=11)
    figure.tight_layout(rect=(0, 0.045, 1, 0.99))
    return save(figure, path)


def _mean_over_clients(clients: Sequence[dict[str, Any]], counts: np.ndarray, group: str) -> np.ndarray:
    """Per class, mean accuracy over the clients to which it belongs to `group`; NaN where there is none."""
    accuracy = np.array([c["per_class"] for c in clients])
    belongs = np.array([class_groups(counts[c["client"]])[group] for c in clients])
    total = belongs.sum(0)
    return np.where(total > 0, (accuracy * belongs).sum(0) / np.maximum(total, 1), np.nan)


def convergence(curves: dict[str, list[list[float]]], title: str, path: Path) -> Path:
    """Accuracy over rounds, a line per method; seeds as a band from the worst to the best."""
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(figsize=(6.4, 4))
    styles = ["-", "--", "-.", ":"]
    for number, (name, seeds) in enumerate(curves.items()):
        length = min(map(len, seeds))
        values = 100 * np.array([seed[:length] for seed in seeds])
        rounds = np.arange(1, length + 1)
        (line,) = axes.plot(rounds, values.mean(0), styles[number % 4], label=name, linewidth=1.6)
        if len(seeds) > 1:
            axes.fill_between(rounds, values.min(0), values.max(0), color=line.get_color(), alpha=0.15, linewidth=0)
    axes.xaxis.get_major_locator().set_params(integer=True)  # there is no round 1.5
    axes.set_xlabel("round")
    axes.set_ylabel("test accuracy, %")
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return save(figure, path)
