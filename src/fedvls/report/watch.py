"""What `fedvls watch` shows: live curves of runs that go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ..runs.scores import scores
from ..runs.store import RunDirectory, find_runs
from .terminal import COLOURS, LETTERS, bounds, plot_cells

PAUSE = 0.5
QUIET = 120.0


@dataclass(frozen=True)
class Progress:
    """How far one run is."""

    name: str
    rounds: int
    curve: list[float]
    seconds: list[float]
    rate: float | None
    vacant: tuple[float, float] | None
    complete: bool
    changed: float

    @property
    def left(self) -> float | None:
        """Seconds to go, at the pace of the last rounds."""
        tail = sorted(self.seconds[-9:])
        return tail[len(tail) // 2] * (self.rounds - len(self.curve)) if tail and not self.complete else None


def progress_of(run: RunDirectory) -> Progress:
    """Read a run as far as it is."""
    records, timings, config = run.records(), run.timings(), run.config()
    effects = [r["local"] for r in records if "local" in r]
    vacant = None
    if effects and effects[-1]["before"]["vacant"] is not None:
        vacant = effects[-1]["before"]["vacant"], effects[-1]["after"]["vacant"]
    log = run.path / "metrics.jsonl"
    return Progress(
        name=run.path.name or str(run.path),
        rounds=len(records) if run.is_complete else max(config.rounds, len(records)),
        curve=[r["accuracy"] for r in records],
        seconds=[t["seconds"] for t in timings],
        rate=timings[-1]["samples_per_second"] if timings else None,
        vacant=vacant,
        complete=run.is_complete,
        changed=log.stat().st_mtime if log.exists() else time.time(),
    )


def frame(runs: Sequence[Progress], width: int, height: int, ascii: bool) -> RenderableType:
    """The picture of one moment."""
    low, high = bounds([run.curve for run in runs])
    last = max([run.rounds for run in runs], default=1)
    across = max(width - 8, 10)
    rows = plot_cells([run.curve for run in runs], last, across, height, low, high, ascii)
    bar, corner, line = ("|", "+", "-") if ascii else ("│", "└", "─")
    lines = []
    for number, row in enumerate(rows):
        share = high - (high - low) * number / max(height - 1, 1)
        label = f"{100 * share:5.1f} " if number in (0, height // 2, height - 1) else " " * 6
        text = Text(label + bar, style="dim", no_wrap=True)
        for cell in row:
            text.append(cell.letter, style="" if cell.curve is None else COLOURS[cell.curve % len(COLOURS)])
        lines.append(text)
    foot = Text(" " * 6 + corner + line * across, style="dim", no_wrap=True)
    axis = Text(" " * 7 + "round 1" + f"{last:>{across - len('round 1')}}", style="dim", no_wrap=True)
    return Group(Text("test accuracy, %", style="dim"), *lines, foot, axis, _legend(runs, ascii))


def _legend(runs: Sequence[Progress], ascii: bool) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    for head in ("run", "round", "last", "best", "vacant classes", "samples/s", ""):
        table.add_column(head, justify="left" if head in ("run", "") else "right", header_style="dim", overflow="fold")
    for number, run in enumerate(runs):
        mark = LETTERS[number % len(LETTERS)] if ascii else "●"
        best = scores(run.curve)["best"] if run.curve else None
        arrow = "->" if ascii else "→"
        table.add_row(
            Text(f"{mark} {run.name}", style=COLOURS[number % len(COLOURS)]),
            f"{len(run.curve)}/{run.rounds}",
            f"{100 * run.curve[-1]:.2f}" if run.curve else "",
            f"{100 * best:.2f}" if best is not None else "",
            f"{100 * run.vacant[0]:.0f} {arrow} {100 * run.vacant[1]:.0f}" if run.vacant else "",
            f"{run.rate:,.0f}" if run.rate else "",
            Text(_standing(run)),
        )
    return table


def _standing(run: Progress) -> str:
    if run.complete:
        return "complete"
    quiet = time.time() - run.changed
    if quiet > QUIET:
        return f"no new round for {quiet / 60:.0f} min: if it stopped, fedvls resume goes on"
    if not run.curve:
        return "waiting for the first round"
    left = run.left
    return f"{left:.0f} s left" if left is not None else ""


def watch_runs(run_dirs: Sequence[Path], once: bool, ascii: bool, console: Console) -> None:
    """Draw until every run is complete; without a terminal, print a line per round instead."""
    find_runs(list(run_dirs))  # a wrong path is said now

    def look() -> list[Progress]:
        return [progress_of(run) for run in find_runs(list(run_dirs))]

    def picture(runs: Sequence[Progress]) -> RenderableType:
        height = max(7, min(17, console.height - len(runs) - 8)) if console.is_terminal else 15
        return frame(runs, console.width, height, ascii)

    if once:
        console.print(picture(look()))
    elif console.is_terminal:
        with Live(picture(look()), console=console, auto_refresh=False, vertical_overflow="crop") as live:
            _until_complete(look, lambda runs: live.update(picture(runs), refresh=True))
    else:
        _until_complete(look, _line_printer(console))


def _until_complete(look: Callable[[], list[Progress]], show: Callable[[list[Progress]], Any]) -> None:
    while True:
        runs = look()
        show(runs)
        if all(run.complete for run in runs):
            return
        time.sleep(PAUSE)


def _line_printer(console: Console) -> Callable[[list[Progress]], None]:
    told: dict[str, int] = {}

    def show(runs: list[Progress]) -> None:
        for run in runs:
            for place in range(told.get(run.name, 0), len(run.curve)):
                line = f"{run.name}: round {place + 1}/{run.rounds}, accuracy {100 * run.curve[place]:.2f} %"
                console.print(line, markup=False, highlight=False, soft_wrap=True)
            told[run.name] = len(run.curve)

    return show
