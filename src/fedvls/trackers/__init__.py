"""Experiment trackers: TensorBoard, MLflow and Weights & Biases, each a small callback and an extra."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

from ..errors import UsageError, unknown
from .base import Tracker

TRACKERS = {"tensorboard": "TensorBoardTracker", "mlflow": "MlflowTracker", "wandb": "WandbTracker"}


def check_trackers(names: Sequence[str]) -> None:
    """Refuse a name that does not exist."""
    for name in names:
        if name not in TRACKERS:
            raise unknown("tracker", name, TRACKERS)


def open_trackers(names: Sequence[str], folder: Path | None) -> list[Tracker]:
    """The trackers of these names for the run in `folder`; a package that is missing is said before the first round."""
    check_trackers(names)
    if names and folder is None:
        raise UsageError(f"log = {', '.join(names)} needs a run directory: give out=...")
    built = []
    for name in dict.fromkeys(names):
        module = importlib.import_module(f".{name}_tracker", __name__)
        built.append(getattr(module, TRACKERS[name])(folder))
    return built


__all__ = ["TRACKERS", "Tracker", "check_trackers", "open_trackers"]
