"""What a person sees: progress on standard error while it runs, tables on standard output at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from ..terminal import number_table, progress_bars
from .report import Report, WorkloadFacts
from .rows import Row, ratio
from .run import Watcher
from .targets import TARGETS, Target
from .watch import Event

# In two lines where that keeps a column narrow: a table must fit 80 columns, and a number is never cut.
HEADS = ("samples/s", "training\nonly", "of\nfloor", "x\nrival", "x\nloop", "accuracy", "peak\nGB")

UNSTEADY = " ?"
UNSTEADY_NOTE = (
    "?: the machine was not steady: other programs took its cores, or this one computed in its pause, or the floor "
    "before and after differs by more than a quarter, or is exceeded. Such rows and targets prove nothing; run again "
    "on a quiet machine, with --repeat 3."
)


class Display(Watcher):
    """A bar with row, rate and time left on a terminal; a line per row elsewhere."""

    def __init__(self, progress: Progress) -> None:
        self._console, self._progress = progress.console, progress
        self._task = progress.add_task("preparing", total=None, rate="")
        self._left = 0
        self._rows = 0

    def on_plan(self, rounds: int) -> None:
        self._progress.update(self._task, total=rounds)

    def on_note(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True)

    def on_row(self, row: Row, repetition: int, rounds: int) -> None:
        self._rows += 1
        self._left = rounds + 1
        again = f", repetition {repetition + 1}" if repetition else ""
        self._progress.update(self._task, description=f"{row.name}{again}: {row.workload}", rate="starting")
        if not self._console.is_terminal:
            self._console.print(f"row {self._rows}: {row.workload}: {row.name}{again} ...", highlight=False)

    def on_event(self, row: Row, event: Event) -> None:
        if event["event"] == "round":
            self._advance(1, f"{event['samples'] / event['seconds']:,.0f} samples/s")
        elif event["event"] == "pause" and self._left > 0:
            self._advance(1 if self._left > 1 else 0, "measuring the floor")

    def on_row_end(self, row: Row) -> None:
        self._advance(self._left, "")
        if row.reason:
            self._console.print(f"{row.workload}: {row.name}: not measured: {row.reason}", highlight=False)
        elif not self._console.is_terminal:
            last = row.measurements[-1]
            self._console.print(f"  {_number(last.rate)} samples/s, accuracy {_percent(last.accuracy, 1)}")

    def _advance(self, rounds: int, rate: str) -> None:
        self._left = max(0, self._left - rounds)
        self._progress.update(self._task, advance=rounds, rate=rate)


@contextmanager
def display() -> Iterator[Display]:
    """Progress on standard error for the duration of a benchmark."""
    columns = ("{task.completed:.0f}/{task.total} rounds", "{task.fields[rate]}")
    with progress_bars(*columns, transient=True) as progress:
        yield Display(progress)


def print_report(report: Report, console: Console | None = None) -> None:
    """The tables."""
    out = console or Console()
    for facts in report.workloads:
        rows = [row for row in report.rows if row.workload == facts.workload.name]
        out.print(rows_table(facts, rows))
        out.print("how they ran: " + "; ".join(settings(rows)), highlight=False)
        for row in rows:
            if not row.measurements:
                out.print(f"not measured: {_name(row)}, {row.method}: {row.reason}", highlight=False, soft_wrap=True)
        out.print()
    print_targets(report.rows, out)
    if not all(row.steady for row in report.rows):
        out.print(UNSTEADY_NOTE, highlight=False)
    cpu, cores, gpu = (report.machine[key] for key in ("cpu", "cores", "gpu"))
    out.print(f"machine: {cpu}, {cores} cores, GPU: {gpu or 'none used'}", highlight=False)
    out.print("versions: " + ", ".join(f"{k} {v}" for k, v in report.versions().items()), highlight=False)


def rows_table(facts: WorkloadFacts, rows: Sequence[Row]) -> Table:
    """One workload: every program beside every other."""
    workload = facts.workload
    title = (
        f"{workload.name}: {workload.summary}\n{facts.data}, {workload.train:,} training samples, {facts.rounds} timed "
        f"round{'s' if facts.rounds > 1 else ''} of {workload.samples_per_round:,} samples after one that is not timed"
    )
    table = number_table(title + (f"; {workload.note}" if workload.note else ""))
    table.add_column("program", overflow="fold")
    measured = [row for row in rows if row.measurements]
    numbers = [numbers_of(rows, row) for row in measured]
    filled = [number for number in range(len(HEADS)) if any(row[number] for row in numbers)]
    for number in filled:
        table.add_column(HEADS[number], justify="right", no_wrap=True)
    for method, same in groupby(zip(measured, numbers, strict=True), lambda pair: pair[0].method):
        table.add_section()
        table.add_row(Text(method, style="bold"))
        for row, own in same:
            table.add_row(_name(row), *(Text(own[number]) for number in filled))
    return table


def settings(rows: Sequence[Row]) -> list[str]:
    """With how many processes and threads, or in which type, each program ran."""
    found = (f"{_name(row)}: {row.measurements[0].setting}" for row in rows if row.measurements)
    return list(dict.fromkeys(found))


def _name(row: Row) -> str:
    return f"fedvls, {_engine(row)}" if row.kind == "ours" else row.program


def _engine(row: Row) -> str:
    return row.program if row.dtype == "float32" else f"{row.program} {row.dtype}"


def numbers_of(rows: Sequence[Row], row: Row) -> list[str]:
    """What the table says of a row, under `HEADS`."""
    return [
        _number(row.rate),
        _number(row.middle("train_rate")),
        _percent(row.middle("share_of_floor")) + ("" if row.steady else UNSTEADY),
        _times(ratio(rows, row, "rival")),
        _times(ratio(rows, row, "loop")),
        _percent(row.middle("accuracy"), 1),
        _memory(row),
    ]


def print_targets(rows: Sequence[Row], out: Console) -> None:
    """The targets, and how far this run came; those of work that was not done are named only."""
    missing = []
    for work, same in groupby(TARGETS, lambda target: f"{target.workload} on {target.device}"):
        targets = list(same)
        if any(target.reached(rows) is not None for target in targets):
            out.print(targets_table(work, targets, rows))
        else:
            missing.append(work)
    if missing:
        out.print(f"targets not measured here: {', '.join(missing)}", highlight=False)


def targets_table(work: str, targets: Sequence[Target], rows: Sequence[Row]) -> Table:
    """The targets of one kind of work: a line for each type that ours were measured in."""
    table = number_table(f"targets, {work}: our row that comes furthest")
    table.add_column("target", overflow="fold")
    for head in ("wanted", "reached", "ratio"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("by", overflow="fold")
    for target in targets:
        said = [target.text, "stated" if target.wanted is None else _with_unit(target, target.wanted)]
        for row, value in target.best_of_types(rows):
            share = target.ratio(value)
            reached = _with_unit(target, value) + _mark(target, rows)
            table.add_row(*said, reached, "" if share is None else f"{share:.2f}", _engine(row))
            said = ["", ""]
        if target.reached(rows) is None:
            table.add_row(*said, "not measured", "", "", style="dim")
    return table


def _mark(target: Target, rows: Sequence[Row]) -> str:
    return "" if target.steady(rows) else UNSTEADY


def _with_unit(target: Target, value: float) -> str:
    return f"{value:,.0f} {target.unit}" if value >= 100 else f"{value:.3g} {target.unit}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _percent(value: Any, digits: int = 0) -> str:
    return "" if value is None else f"{100 * value:.{digits}f} %"


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _memory(row: Row) -> str:
    parts = [(row.middle("peak_memory"), ""), (row.middle("gpu_memory"), " GPU")]
    return "\n".join(f"{value / 1e9:.1f}{where}" for value, where in parts if value is not None)
