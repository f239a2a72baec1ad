"""Weights & Biases. Files go to the run's folder; WANDB_MODE=offline keeps everything there."""

from __future__ import annotations

import os
from typing import Any

from .base import Tracker

PROJECT = "fedvls"


class WandbTracker(Tracker):
    """One W&B run per run; the record is found again after a resume."""

    name = "wandb"
    package = "wandb"

    def open(self, title: str, choices: dict[str, Any], done: int) -> None:
        self._run = self.client_library.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=title,
            id=self.remembered(),  # none: W&B chooses one
            resume="allow",
            dir=str(self.folder),
            config=choices,
        )
        self.remember(self._run.id)

    def log(self, values: dict[str, float], round: int) -> None:
        self._run.log(values, step=round)

    def close(self, summary: dict[str, float]) -> None:
        for key, value in summary.items():
            self._run.summary[key] = value
        self._run.finish()
