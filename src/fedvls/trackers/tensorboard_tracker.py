"""TensorBoard: event files in the run's folder. Look at them with `tensorboard --logdir runs`."""

from __future__ import annotations

from typing import Any

from .base import Tracker


class TensorBoardTracker(Tracker):
    """Scalars per round; the choices as text."""

    name = "tensorboard"
    package = "torch.utils.tensorboard"

    def open(self, title: str, choices: dict[str, Any], done: int) -> None:
        # Rounds that a resume runs again replace what an earlier process wrote for them.
        again = done + 1 if done else None
        self._writer = self.client_library.SummaryWriter(str(self.folder / "tensorboard"), purge_step=again)
        lines = "\n".join(f"    {key}: {value}" for key, value in choices.items())
        self._writer.add_text("choices", lines, done)

    def log(self, values: dict[str, float], round: int) -> None:
        for key, value in values.items():
            self._writer.add_scalar(key, value, round)
        self._writer.flush()

    def close(self, summary: dict[str, float]) -> None:
        for key, value in summary.items():
            self._writer.add_scalar(f"result/{key}", value, 0)
        self._writer.close()
