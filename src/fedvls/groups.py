"""What a class is to a client: vacant, minority or majority. Numpy only, so that reports need no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

GROUPS = ("vacant", "minority", "majority")


def class_groups(counts: np.ndarray) -> dict[str, np.ndarray]:
    """Classes of one client as booleans: vacant (none), minority (up to the mean count), majority (above it)."""
    average = counts.mean()
    return {"vacant": counts == 0, "minority": (counts > 0) & (counts <= average), "majority": counts > average}


def group_accuracy(per_class: Sequence[float], counts: np.ndarray) -> dict[str, float | None]:
    """Mean class accuracy in each group; None where the client has no such class."""
    values = np.asarray(per_class)
    return {name: float(values[m].mean()) if m.any() else None for name, m in class_groups(counts).items()}


def summarise_groups(clients: Sequence[Mapping[str, Any]], moment: str) -> dict[str, float | None]:
    """Mean over clients of their group accuracies, "before" or "after" the local update."""
    return {group: _mean([c[moment][group] for c in clients]) for group in GROUPS}


def mean_per_class(clients: Sequence[Mapping[str, Any]], counts: np.ndarray, group: str) -> np.ndarray:
    """Per class, mean accuracy over the clients to which it belongs to `group`; NaN where there is none."""
    accuracy = np.array([c["per_class"] for c in clients])
    belongs = np.array([class_groups(counts[c["client"]])[group] for c in clients])
    total = belongs.sum(0)
    return np.where(total > 0, (accuracy * belongs).sum(0) / np.maximum(total, 1), np.nan)


def _mean(values: Sequence[float | None]) -> float | None:
    there = [v for v in values if v is not None]
    return sum(there) / len(there) if there else None
