"""What a person sees while a run goes on: one bar with round, accuracy, samples/s and time left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ..callbacks import Callback


class Bar(Callback):
    """Feeds a progress bar; also remembers how far the run came."""

    def __init__(self, progress: Progress, name: str) -> None:
        self.done, self.rounds = 0, 0
        self._progress = progress
        self._task = progress.add_task(name, total=None, accuracy="", rate="")

    def on_start(self, header: dict[str, Any], rounds: int, done: int) -> None:
        self.done, self.rounds = done, rounds
        self._progress.update(self._task, total=rounds, completed=done)

    def on_round(self, record: dict[str, Any], timing: dict[str, Any]) -> None:
        self.done = record["round"]
        self._progress.update(
            self._task,
            completed=self.done,
            accuracy=f"{100 * record['accuracy']:.2f} %",
            rate=f"{timing['samples_per_second']:,.0f} samples/s",
        )


@contextmanager
def progress_display() -> Iterator[Progress]:
    """Bars on standard error; nothing at all when that is not a terminal."""
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("round {task.completed:.0f}/{task.total}"),
        TextColumn("{task.fields[accuracy]}"),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    ) as progress:
        yield progress
