"""One study from start to table: plan, run what is missing, tabulate, write every form of the table."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..runs.config import RunConfig
from ..runs.files import write_atomically
from .archive import archived, archived_scales
from .execute import Backend, execute
from .figures import draw
from .jobs import Job, with_starts
from .plan import Cell, Scale, plan
from .render import render
from .study import Point, Study, load_study, names, narrowed
from .table import StudyTable, count_labels, tabulate

ENDINGS = {"markdown": "md", "latex": "tex", "csv": "csv", "json": "json"}


@dataclass(frozen=True)
class Selection:
    """The part of a study that was asked for."""

    study: Study
    rows: Sequence[Point]
    columns: Sequence[Point]
    scale: Scale
    cells: Sequence[Cell] = field(default_factory=list)

    @property
    def jobs(self) -> list[Job]:
        """Every run that is needed, once."""
        return with_starts([job for cell in self.cells for job in cell.jobs.values()])


def choose_cells(
    name: str, wanted: Mapping[str, Sequence[str]], seeds: Sequence[int] | None, scale: Scale
) -> Selection:
    """The cells of a study with these values on its axes."""
    study = load_study(name)
    rows, columns = narrowed(study, wanted)
    cells = plan(study, rows, columns, seeds or study.seeds, scale) if study.trains else []
    return Selection(study, rows, columns, scale, cells)


def archived_selections(archive: Path, scale: Scale) -> Iterator[Selection]:
    """Of every study of which the archive has a run: the rows, columns and seeds that have one. Where `scale` does not
    say which number format, how much data or how many rounds, each that the archive has is a table of its own."""
    for name, asked in itertools.product(names(), _scales(archive, scale)):
        whole = choose_cells(name, {}, None, asked)
        cut = [cell for cell in whole.cells if asked.rounds in (None, scale.rounds) or cell.is_cut_to(asked.rounds)]
        jobs = [(cell, seed, job) for cell in cut for seed, job in cell.jobs.items()]
        there = [(cell, seed) for cell, seed, job in jobs if archived(job, archive)]
        rows = [row for row in whole.rows if row in {cell.row for cell, _ in there}]
        columns = [column for column in whole.columns if column in {cell.column for cell, _ in there}]
        seeds = {seed for _, seed in there}
        if there:
            grid = [
                replace(cell, jobs={seed: job for seed, job in cell.jobs.items() if seed in seeds})
                for cell in whole.cells
                if cell.row in rows and cell.column in columns
            ]
            yield replace(whole, rows=rows, columns=columns, cells=grid)


def _scales(archive: Path, scale: Scale) -> list[Scale]:
    """What was asked for, and where that leaves it open what archived runs have: other formats, less data, fewer
    rounds."""
    found, usual = archived_scales(archive), RunConfig().dtype
    scales = []
    for dtype in [scale.dtype] if scale.dtype else [usual, *sorted({dtype for dtype, _, _ in found} - {usual})]:
        changes = scale.changes if dtype in (usual, scale.dtype) else (*scale.changes, f"dtype={dtype}")
        of_dtype = {(share, rounds) for other, share, rounds in found if other == dtype}
        shares = {share for share, _ in of_dtype} | {1.0} if scale.fraction is None else {scale.fraction}
        for share in sorted(shares, reverse=True):
            less = replace(scale, changes=changes, fraction=share if share < 1 else scale.fraction)
            fewer = sorted(rounds for other, rounds in of_dtype if other == share) if scale.rounds is None else []
            scales += [less, *(replace(less, rounds=rounds) for rounds in fewer)]
    return scales


def reproduce(
    selection: Selection,
    root: Path,
    backend: Backend | None,
    score: str = "best",
    tell: Callable[[Job, str | None], None] = lambda *_: None,
    unfinished: bool = False,
) -> tuple[StudyTable, list[Path]]:
    """Run what is missing (nothing without a backend), and write table and figures; the files come with the table.

    unfinished: the table counts runs that are not finished, as far as they have come.
    Runs are shared by all studies under `root`: a cell that another study has run is not run again.
    """
    study, scale = selection.study, selection.scale
    if study.trains:
        failures = execute(selection.jobs, root / "runs", backend, tell) if backend else {}
        table = tabulate(study, selection.cells, root / "runs", scale, score, failures, unfinished)
    else:
        table = count_labels(study, selection.rows, selection.columns, scale)
    folder = root / "-".join([study.name, *([*_short(scale), "scaled-down"] if table.label else [])])
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for form, ending in ENDINGS.items():
        files.append(folder / f"table.{ending}")
        write_atomically(files[-1], f"{render(table, form)}\n".encode())
    return table, [*files, *draw(table, folder)]


def _short(scale: Scale) -> list[str]:
    """What was changed, as parts of a folder's name."""
    rounds = [f"{scale.rounds}-rounds"] if scale.rounds else []
    share = [f"{100 * scale.fraction:g}-percent"] if scale.fraction is not None and scale.fraction < 1 else []
    return [*([scale.dtype] if scale.dtype else []), *rounds, *share]


def catalogue() -> list[dict[str, Any]]:
    """All studies: what they are, how many cells and runs, whether numbers were published."""
    rows = []
    for name in names():
        selection = choose_cells(name, {}, None, Scale())
        study = selection.study
        rows.append(
            {
                "name": name,
                "title": study.title,
                "paper": study.paper,
                "cells": len(study.rows) * len(study.columns),
                "runs": len(selection.jobs),
                "published": _published(study),
                "figure": study.figure is not None,
            }
        )
    return rows


def _published(study: Study) -> str:
    """Whether the paper prints numbers for all cells, some or none."""
    printed = [study.printed(row, column) is not None for row in study.rows for column in study.columns]
    return "yes" if all(printed) else "partly" if any(printed) else "no"
