"""What the runs of a study cost: minutes of training and evaluation, cell by cell and device by device."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import unknown
from ..report.tables import csv_grid, latex_grid, markdown_grid
from ..runs.files import to_json
from .jobs import Job
from .plan import Cell, Layout, sides
from .progress import Runs
from .render import FORMATS, latex_table
from .study import Study

Minutes = Mapping[str, float]
"""By device, as the runs' headers name it: `cuda: NVIDIA H200`."""


@dataclass(frozen=True)
class CostTable(Layout):
    """Minutes of every cell, and of all runs together: a run that several cells are read from counts there once."""

    cells: Mapping[tuple[str, str], Minutes]
    total: Minutes
    runs: int


def cost(study: Study, cells: Iterable[Cell], root: Path, unfinished: bool = False) -> CostTable:
    """What the finished runs under `root` took, with `unfinished` also the others."""
    cells, runs = list(cells), Runs(root, unfinished)
    found = {(cell.row.label, cell.column.label): _minutes(cell.jobs.values(), runs) for cell in cells}
    jobs = {job.key: job for cell in cells for job in cell.jobs.values() if runs.of(job)}
    return CostTable(study, *sides(cells), found, _minutes(jobs.values(), runs), len(jobs))


def _minutes(jobs: Iterable[Job], runs: Runs) -> Minutes:
    spent: defaultdict[str, float] = defaultdict(float)
    for job in jobs:
        if runs.of(job):
            spent[runs.device(job)] += sum(record["seconds"] for record in runs.timing(job)) / 60
    return dict(spent)


def caption(table: CostTable) -> str:
    """What the numbers are, and the sum of them."""
    devices = ", ".join(table.total)
    spent = f"{table.runs} run{'s' * (table.runs != 1)}, {cell_text(table.total)} in all"
    return f"{table.study.title}: minutes of all seeds' runs ({spent}; {devices})." if table.runs else "No run yet."


def cell_text(minutes: Minutes) -> str:
    """`1.2 cuda + 6.0 cpu`: the caption says which devices these are."""
    kinds: defaultdict[str, float] = defaultdict(float)
    for device, spent in minutes.items():
        kinds[device.partition(":")[0]] += spent
    return " + ".join(f"{spent:.1f} {kind}" for kind, spent in kinds.items()) or "–"  # noqa: RUF001 (a dash)


def grid(table: CostTable) -> tuple[list[str], list[list[str]]]:
    """Heads and lines of the table."""
    lines = [
        [row.label, *(cell_text(table.cells[row.label, column.label]) for column in table.columns)]
        for row in table.rows
    ]
    return ["", *(column.label for column in table.columns)], lines


def render(table: CostTable, form: str) -> str:
    """The table in one of the text formats."""
    if form == "json":
        return to_json(_to_dict(table), indent=2)
    heads, lines = grid(table)
    if form == "csv":
        return csv_grid(["row", "column", "device", "minutes"], _long(table))
    if form == "markdown":
        return f"**{caption(table)}**\n\n{markdown_grid(heads, lines, len(table.columns))}"
    if form == "latex":
        return latex_table(latex_grid(heads, lines, len(table.columns)), caption(table), f"{table.study.name}-cost")
    raise unknown("format", form, FORMATS)


def _long(table: CostTable) -> list[list[Any]]:
    """One line per cell and device."""
    return [[*place, device, round(spent, 3)] for place, cell in table.cells.items() for device, spent in cell.items()]


def _to_dict(table: CostTable) -> dict[str, Any]:
    return {
        "study": table.study.name,
        "title": table.study.title,
        "runs": table.runs,
        "minutes": dict(table.total),
        "cells": [{"row": row, "column": column, "minutes": cell} for (row, column), cell in table.cells.items()],
    }
