"""The table of a study: for every cell what was published, what was measured, and the difference."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..data.fraction import share_of
from ..report.tables import mean_std
from .claims import Verdict, judge
from .plan import Cell, Layout, Scale, paper_setting, sides
from .progress import Runs, compared
from .readings import OF_PARTITION, read_value, readable, rounds_asked
from .study import Point, Published, Study, protocol


@dataclass(frozen=True)
class Entry:
    """One cell: the values measured, by seed, beside the published one."""

    row: Point
    column: Point
    published: Published | None = None
    measured: Mapping[int, float] = field(default_factory=dict)
    rounds: int = 0
    paper_rounds: int = 0
    runs: Sequence[str] = ()
    failure: str | None = None
    length: int | None = None
    """So many rounds of each run count, where runs were cut to the shortest of those they are compared with."""
    seeds: int = 1
    """So many were asked for; a run that failed or is not there leaves fewer in `measured`."""

    @property
    def mean(self) -> float | None:
        return mean_std(list(self.measured.values()))[0] if self.measured else None

    @property
    def std(self) -> float | None:
        """Over seeds; none for a single one."""
        return mean_std(list(self.measured.values()))[1] if len(self.measured) > 1 else None

    @property
    def difference(self) -> float | None:
        return None if self.mean is None or self.published is None else self.mean - self.published.mean


@dataclass(frozen=True)
class StudyTable(Layout):
    """Everything a rendering needs."""

    entries: Mapping[tuple[str, str], Entry]
    seeds: Sequence[int]
    score: str
    label: str

    def entry(self, row: Point, column: Point) -> Entry:
        return self.entries[row.label, column.label]

    @property
    def seeds_text(self) -> str:
        """`seed 0`, or `seeds 0, 1, 2`."""
        return f"seed{'s' * (len(self.seeds) > 1)} {', '.join(map(str, self.seeds))}"

    @property
    def verdicts(self) -> list[Verdict]:
        """What the measured cells say about the paper's claims."""
        measured = {place: entry.mean for place, entry in self.entries.items()}
        return [judge(claim, self.study, measured) for claim in self.study.claims]


def tabulate(
    study: Study,
    cells: Iterable[Cell],
    root: Path,
    scale: Scale,
    score: str,
    failures: Mapping[str, str],
    unfinished: bool = False,
) -> StudyTable:
    """The table of what is on disk under `root`; `failures` says by key why a job has no result.

    unfinished: also of runs that are not finished, as far as they have come.
    """
    cells, runs = list(cells), Runs(root, unfinished)
    lengths = runs.equal_lengths(study, cells)
    entries, so_far, is_cut = {}, [], False
    for cell in cells:
        measured, places, used = {}, [], []
        length = lengths.get(compared(study, cell))
        for seed, job in cell.jobs.items():
            there = readable(study.read, runs.of(job))
            records = there[:length]
            counts = runs.counts(job) if records and study.read in OF_PARTITION else ()
            value = read_value(study.read, records, cell.axes, score, cell.rounds, runs.planned(job), counts)
            if math.isfinite(value):
                measured[seed] = value
                places.append(str(job.folder(root)))
                used.append(len(records))
                is_cut = is_cut or len(records) < len(there)
        planned = next((job.config.rounds for job in cell.jobs.values()), 0)
        asked = rounds_asked(cell.axes, cell.rounds, planned)
        rounds = min([asked, *used])
        if rounds < asked:
            so_far.append((rounds, cell.rounds))
        failure = next((failures[job.key] for job in cell.jobs.values() if job.key in failures), None)
        printed = study.printed(cell.row, cell.column)
        paper = cell.axes.get("first", cell.rounds)
        entry = Entry(cell.row, cell.column, printed, measured, rounds, paper, places, failure, length, len(cell.jobs))
        entries[cell.row.label, cell.column.label] = entry
    seeds = list(dict.fromkeys(seed for cell in cells for seed in cell.jobs))
    full = [n for cell in cells for n in (cell.rounds, cell.start_rounds)]
    return _table(study, cells, entries, seeds, score, scale.label(full, so_far, is_cut))


def count_labels(study: Study, rows: Sequence[Point], columns: Sequence[Point], scale: Scale) -> StudyTable:
    """The table of a study that only shares labels out: class sizes decide the counts, so no data are read."""
    entries, cells = {}, []
    splits: dict[str, np.ndarray] = {}
    for row in rows:
        for column in columns:
            axes = study.axes(row, column)
            skew = {k: v for k, v in axes.items() if k not in ("class", "client")}
            key = repr(sorted(skew.items()))
            if key not in splits:
                splits[key] = shared_out(skew, study.seeds[0], scale.fraction)
            value = float(splits[key][axes["client"], axes["class"]])
            entry = Entry(row, column, study.printed(row, column), {study.seeds[0]: value})
            entries[row.label, column.label] = entry
            cells.append(Cell(row, column, axes))
    return _table(study, cells, entries, study.seeds, "last", scale.label([]))


def shared_out(axes: Mapping[str, Any], seed: int, fraction: float | None = None) -> np.ndarray:
    """Counts [client, class] of a partition of a data set with known class sizes."""
    from ..partition import get_partition

    sizes = protocol()["class_sizes"][axes["dataset"]]
    labels = np.repeat(np.arange(sizes["classes"]), share_of(sizes["each"], fraction or 1.0))
    partition = dict(paper_setting({"method": "fedavg", **axes})["partition"])
    built = get_partition(partition.pop("name"), **partition)
    return built.split(labels, sizes["classes"], axes["clients"], seed).counts


def _table(
    study: Study,
    cells: Sequence[Cell],
    entries: Mapping[tuple[str, str], Entry],
    seeds: Sequence[int],
    score: str,
    label: str,
) -> StudyTable:
    return StudyTable(study, *sides(cells), entries, seeds, score, label)
