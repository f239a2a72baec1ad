"""The one way to watch a run: progress bars, trackers and your own code are callbacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .runs.result import Result


class Callback:
    """Override what you need; exceptions you raise stop the run, which stays resumable."""

    def on_start(self, header: dict[str, Any], rounds: int, done: int) -> None:
        """Before the first round; `done` rounds were already there (a resumed run)."""

    def on_round(self, record: dict[str, Any], timing: dict[str, Any]) -> None:
        """After every round, when its metrics are safe on disk."""

    def on_end(self, result: Result) -> None:
        """After the last round."""
