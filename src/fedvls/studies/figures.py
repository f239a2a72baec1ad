"""The figures of a study, drawn from its table and the runs behind it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ..partition import Split
from ..report.figures import convergence, partition_heat_map, save
from ..runs.files import to_json
from ..runs.store import RunDirectory
from .study import Point
from .table import Entry, StudyTable

PALETTE = ("#b8b8b8", "#0072b2", "#e69f00", "#d55e00", "#009e73", "#cc79a7", "#56b4e9")
HATCHES = ("", "//", "..", "xx", "\\\\", "++", "--")


def draw(table: StudyTable, folder: Path) -> list[Path]:
    """The study's figures (none if it has none, nothing is measured, or matplotlib is missing)."""
    if table.study.figure is None or find_spec("matplotlib") is None:
        return []
    return FIGURES[table.study.figure](table, folder)


def curves_of(table: StudyTable) -> dict[str, dict[str, list[list[float]]]]:
    """Column -> row -> one curve of accuracies per seed, as far as they were measured."""
    return {
        column.label: {
            row.label: [
                [r["accuracy"] for r in RunDirectory(Path(run)).records()[: _counted(entry)]] for run in entry.runs
            ]
            for row in table.rows
            if (entry := table.entry(row, column)).runs
        }
        for column in table.columns
    }


def _counted(entry: Entry) -> int | None:
    """The rounds of each run that the column asks for, or that all runs it is compared with have; None for all."""
    return entry.rounds if "first" in entry.column.axes else entry.length


def _curves(table: StudyTable, folder: Path) -> list[Path]:
    """Accuracy over rounds, a file per column, and their numbers."""
    found = {column: rows for column, rows in curves_of(table).items() if rows}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "curves.json").write_text(to_json({"label": table.label, "curves": found}) + "\n", encoding="utf-8")
    return [
        convergence(rows, _title(table, column), folder / f"curves-{_slug(column)}.png")
        for column, rows in found.items()
    ]


def _bars(table: StudyTable, folder: Path) -> list[Path]:
    """One group of bars per column, one bar per row."""
    shown = [row for row in table.rows if any(table.entry(row, c).measured for c in table.columns)]
    if not shown:
        return []
    figure = _figure(max(6.4, 0.24 * len(shown) * len(table.columns) + 1.5), 3.6)
    axes = figure.subplots()
    places, width = np.arange(len(table.columns)), 0.8 / len(shown)
    for number, row in enumerate(shown):
        values = [table.entry(row, column).mean for column in table.columns]
        axes.bar(
            places + (number - (len(shown) - 1) / 2) * width,
            [np.nan if v is None else v for v in values],
            width,
            label=row.label,
            color=PALETTE[number % len(PALETTE)],
            hatch=HATCHES[number % len(HATCHES)],
            edgecolor="white",
            linewidth=0,
        )
    names = [column.label.removeprefix("class ") for column in table.columns]
    axes.set_xticks(places, names, rotation=0 if len(names) < 14 else 60)
    axes.set_xlabel("class")
    axes.set_ylabel("test accuracy, %")
    axes.set_ylim(0, 100)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(_title(table), fontsize=10)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    return [save(figure, folder / "bars.png")]


def _matrix(table: StudyTable, folder: Path) -> list[Path]:
    """Rows x columns as shares of the row, with the numbers in the cells; a panel for every other axis of the rows."""
    panels: dict[str, list[Point]] = {}
    for row in table.rows:
        *others, _ = row.axes.values()
        panels.setdefault(", ".join(map(str, others)), []).append(row)
    values = {name: _values(table, rows) for name, rows in panels.items()}
    if not any(counts.any() for counts in values.values()):
        return []
    width, height = 0.3 + 0.46 * len(table.columns), 1.2 + 0.42 * max(map(len, panels.values()))
    figure = _figure(1.2 + width * len(panels), height)
    every = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (name, counts) in zip(every, values.items(), strict=True):
        shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
        image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        for (row, column), value in np.ndenumerate(counts):
            colour = "white" if shares[row, column] > 0.5 else "black"
            axes.text(column, row, f"{value:.0f}", ha="center", va="center", fontsize=7, color=colour)
        axes.set_xticks(range(len(table.columns)), [_last_word(c) for c in table.columns])
        axes.set_yticks(range(len(panels[name])), [_last_word(r) for r in panels[name]])
        axes.set_xlabel(next(iter(table.columns[0].axes)))
        axes.set_title(name, fontsize=10)
    every[0].set_ylabel(list(table.rows[0].axes)[-1])
    figure.suptitle(_title(table), fontsize=10, y=1.03)
    figure.colorbar(image, ax=list(every), label="share of the row")
    return [save(figure, folder / "matrix.png")]


def _values(table: StudyTable, rows: Sequence[Point]) -> np.ndarray:
    """What was measured in these rows; 0 where nothing was."""
    return np.array([[table.entry(row, column).mean or 0.0 for column in table.columns] for row in rows])


def _heat_maps(table: StudyTable, folder: Path) -> list[Path]:
    """A heat map per partition whose clients are all in the table."""
    if [column.axes["client"] for column in table.columns] != list(range(table.study.fixed["clients"])):
        return []
    skews: dict[str, list[Point]] = {}
    for row in table.rows:
        skew = {k: v for k, v in {**table.study.fixed, **row.axes}.items() if k in ("beta", "shards")}
        skews.setdefault(" ".join(f"{k} {v}" for k, v in skew.items()), []).append(row)
    paths = []
    for name, rows in skews.items():
        counts = np.array([[table.entry(row, column).mean for row in rows] for column in table.columns], np.int64)
        split = Split(tuple(np.empty(n, np.int64) for n in counts.sum(1)), counts)
        about = f"{table.study.fixed['dataset']}, {name}, seed {table.seeds[0]}"
        title = "\n".join(filter(None, [f"{about}: {split.vacant_per_client:.1f} vacant per client", table.label]))
        classes = [str(row.axes["class"]) for row in rows]
        paths.append(partition_heat_map(split, classes, title, folder / f"partition-{_slug(name)}.png"))
    return paths


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def _title(table: StudyTable, column: str = "") -> str:
    about = ": ".join(filter(None, [table.study.title, column]))
    return "\n".join([f"{about}, {table.seeds_text}", *textwrap.wrap(table.label, 80)])


def _slug(text: str) -> str:
    return re.sub(r"[^\w.]+", "-", text).strip("-")


def _last_word(point: Point) -> str:
    return point.label.split()[-1]


FIGURES: dict[str, Callable[[StudyTable, Path], list[Path]]] = {
    "curves": _curves,
    "bars": _bars,
    "matrix": _matrix,
    "heat-maps": _heat_maps,
}
