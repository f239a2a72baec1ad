"""What a person sees while a run goes on: one bar with round, accuracy, samples/s and time left."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from rich.progress import Progress

from ..callbacks import Callback
from ..terminal import progress_bars


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


def progress_display() -> AbstractContextManager[Progress]:
    """The bars that `Bar` feeds."""
    return progress_bars("round {task.completed:.0f}/{task.total}", "{task.fields[accuracy]}", "{task.fields[rate]}")
