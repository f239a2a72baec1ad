"""From a study and what a user asked for to the jobs that have to be run."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import UsageError
from ..method import METHODS
from ..runs.config import RunConfig, apply_settings, assign
from .jobs import Job
from .study import SETTINGS, Axes, Point, Study, protocol


@dataclass(frozen=True)
class Scale:
    """How a study is run: less of it than in the paper, or with other settings, and where."""

    rounds: int | None = None
    fraction: float | None = None
    changes: tuple[str, ...] = ()
    place: Mapping[str, Any] = field(default_factory=dict)
    """Top-level keys of a configuration that say where and how fast it computes, and `data_dir`."""

    def __post_init__(self) -> None:
        if self.rounds is not None and self.rounds < 1:
            raise UsageError(f"rounds = {self.rounds} must be >= 1")
        if self.fraction is not None and not 0 < self.fraction <= 1:
            raise UsageError(
                f"--fraction {self.fraction} must be above 0 and at most 1: the share of the training data"
            )

    @property
    def dtype(self) -> str | None:
        """The number format asked for, if one was."""
        return next((change.partition("=")[2] for change in self.changes if change.startswith("dtype=")), None)

    def label(self, full_rounds: Sequence[int], so_far: Sequence[tuple[int, int]] = (), is_cut: bool = False) -> str:
        """`scaled down: 5 of 50 rounds, 10 % of the data`, or nothing for the paper's own setting.

        so_far: rounds of unfinished runs, and of the paper; is_cut: others were cut to the length of these.
        """
        said = []
        more = sorted({full for full in full_rounds if self.rounds is not None and full > self.rounds})
        if more:
            said.append(f"{self.rounds} of {' or '.join(map(str, more))} rounds")
        if so_far:
            lengths = " and ".join(f"{done} of {full} rounds" for done, full in sorted(set(so_far)))
            said.append(f"{lengths} so far" + (" (compared runs are cut to the shortest)" * is_cut))
        if self.fraction is not None and self.fraction < 1:
            said.append(f"{100 * self.fraction:g} % of the data")
        parts = [f"scaled down: {', '.join(said)}"] if said else []
        if self.changes:
            parts.append(f"not the paper's setting: {', '.join(self.changes)}")
        return "; ".join(parts)


@dataclass(frozen=True)
class Cell:
    """One place of the table: the jobs it is read from, one per seed, and the rounds they have in the paper.

    A place at which there is nothing to measure has no job.
    """

    row: Point
    column: Point
    axes: Axes
    jobs: Mapping[int, Job] = field(default_factory=dict)
    rounds: int = 0
    start_rounds: int = 0
    """Of the run it starts from, if there is one."""

    def is_cut_to(self, rounds: int) -> bool:
        """Whether this cell, or the run it starts from, has more rounds in the paper."""
        return rounds < max(self.rounds, self.start_rounds)


@dataclass(frozen=True)
class Layout:
    """What every table of a study has: rows and columns, in the order of its cells."""

    study: Study
    rows: Sequence[Point]
    columns: Sequence[Point]


def sides(cells: Sequence[Cell]) -> tuple[list[Point], list[Point]]:
    """The rows and the columns of these cells, each once."""
    return list(dict.fromkeys(cell.row for cell in cells)), list(dict.fromkeys(cell.column for cell in cells))


def plan(
    study: Study, rows: Sequence[Point], columns: Sequence[Point], seeds: Sequence[int], scale: Scale
) -> list[Cell]:
    """All cells of these rows and columns."""
    starts: dict[int, tuple[Job | None, int]] = dict.fromkeys(seeds, (None, 0))
    if study.start is not None:
        starts = {seed: _job(study.start, {}, seed, scale) for seed in seeds}
    cells = []
    for row in rows:
        for column in columns:
            axes = study.axes(row, column)
            if not study.has(row, column):
                cells.append(Cell(row, column, axes))
                continue
            settings = {**study.settings, **row.settings, **column.settings}
            made = {seed: _job(axes, settings, seed, scale, starts[seed][0]) for seed in seeds}
            jobs = {seed: job for seed, (job, _) in made.items()}
            cells.append(Cell(row, column, axes, jobs, made[seeds[0]][1], starts[seeds[0]][1]))
    return cells


def _job(axes: Axes, settings: Mapping[str, Any], seed: int, scale: Scale, after: Job | None = None) -> tuple[Job, int]:
    """The job of these axes and the number of rounds it has in the paper."""
    values = paper_setting(axes)
    for path, value in settings.items():
        assign(values, path, value)
    full = int(values["rounds"])
    if scale.rounds is not None:
        values["rounds"] = min(scale.rounds, full)
    if scale.fraction is not None:
        assign(values, "data.fraction", scale.fraction)
    values = apply_settings({**values, "seed": seed}, scale.changes)
    for key, value in scale.place.items():
        assign(values, "data.data_dir" if key == "data_dir" else key, value)
    return Job(RunConfig.from_mapping(values, "study"), after), full


def paper_setting(axes: Axes) -> dict[str, Any]:
    """The paper's configuration for these axes: its data set's, then its method's, then the axes themselves."""
    from .. import methods  # noqa: F401  (registers them)

    of_data = copy.deepcopy(protocol()["datasets"][axes["dataset"]])
    lam, _ = of_data.pop("lam"), of_data.pop("title", None)
    values: dict[str, Any] = {**of_data, **protocol()["methods"].get(axes["method"], {})}
    if "partition" not in values and "partition" not in axes:
        values["partition"] = "quantity" if "shards" in axes else "dirichlet"
    for axis, value in axes.items():
        if axis in SETTINGS and not (axis == "dataset" and "data" in values):
            assign(values, SETTINGS[axis], value)
    if "lam" in METHODS.entry(axes["method"]).defaults:
        values["method"].setdefault("lam", lam)
    return values
