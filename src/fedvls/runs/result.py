"""What a run gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from ..errors import UsageError
from ..models.network import ModelState, Network
from .scores import scores


@dataclass(frozen=True)
class Result:
    """A finished run. Accuracies are shares between 0 and 1, on the untouched test set."""

    records: list[dict[str, Any]] = field(repr=False)
    header: Mapping[str, Any] = field(repr=False)
    weights: ModelState = field(repr=False)
    network: Network = field(repr=False)
    run_dir: Path | None = None

    @property
    def curve(self) -> list[float]:
        """Accuracy of the global model after every round."""
        return [r["accuracy"] for r in self.records]

    @property
    def best(self) -> float:
        return float(scores(self.curve)["best"])

    @property
    def best_round(self) -> int:
        return int(scores(self.curve)["best_round"])

    @property
    def last(self) -> float:
        return self.curve[-1]

    @property
    def mean_last_five(self) -> float:
        return float(scores(self.curve)["mean_last_five"])

    @property
    def per_class(self) -> list[float]:
        """Accuracy per class of the last round's global model."""
        return list(self.records[-1]["per_class"])

    @property
    def local(self) -> dict[str, Any]:
        """The clients' models after the last round's local update: see `fedvls.evaluation`."""
        return dict(self.records[-1]["local"])

    @property
    def model(self) -> nn.Module:
        """The global model as a module of your class, in eval mode."""
        return self.network.module(self.weights)

    def confusion(self, client: int) -> np.ndarray:
        """Confusion matrix (rows: true class) of a client's model after its last recorded local update."""
        for record in reversed(self.records):
            found = record.get("local", {}).get("confusion", {}).get(str(client))
            if found is not None:
                return np.asarray(found)
        raise UsageError(f"no confusion matrix of client {client} was recorded; ask for it with confusion=[{client}]")

    def summary(self) -> dict[str, Any]:
        """The numbers that `result.json` holds."""
        return {
            **scores(self.curve),
            "rounds": len(self.records),
            "per_class": self.per_class,
            "updates_left_out": sum(len(r["left_out"]) for r in self.records),
        }
