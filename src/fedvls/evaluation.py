"""What a model knows: accuracy over all, per class, and on the classes a client lacks, has few or has many of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .data.resident import ResidentData
from .models.network import ModelState, Network


@dataclass(frozen=True)
class Evaluation:
    """A model on the whole test set. `confusion[true, predicted]` counts samples."""

    confusion: np.ndarray
    loss: float
    per_domain: dict[str, float] = field(default_factory=dict)
    """Accuracy on each domain's test samples, where the data has domains."""

    @property
    def accuracy(self) -> float:
        return float(np.trace(self.confusion) / self.confusion.sum())

    @property
    def per_class(self) -> list[float]:
        """Share of each class's test samples that is predicted right; NaN-free: a class without samples gives 0."""
        totals = self.confusion.sum(1)
        return [float(hit / max(total, 1)) for hit, total in zip(np.diag(self.confusion), totals, strict=True)]

    def record(self) -> dict[str, Any]:
        """What a round's line in metrics.jsonl says of it."""
        about: dict[str, Any] = {"accuracy": self.accuracy, "loss": self.loss, "per_class": self.per_class}
        if self.per_domain:
            about["domains"] = {**self.per_domain, "mean": sum(self.per_domain.values()) / len(self.per_domain)}
        return about


@torch.no_grad()
def evaluate(network: Network, state: ModelState, data: ResidentData, classes: int) -> Evaluation:
    """Argmax over all raw logits, eval mode, the whole test set; the loss is plain cross-entropy."""
    confusion = torch.zeros(classes * classes, dtype=torch.int64, device=data.device)
    loss = torch.zeros((), dtype=torch.float64, device=data.device)
    hits = []
    for x, labels in data.test_batches():
        logits = network.logits(state, x, train=False)
        predicted = logits.argmax(-1)
        confusion += torch.bincount(labels * classes + predicted, minlength=classes * classes)
        loss += torch.nn.functional.cross_entropy(logits.double(), labels, reduction="sum")
        hits.append(predicted == labels)
    per_domain = {}
    if getattr(data, "domain_test", None) is not None:
        hit = torch.cat(hits).double()
        per_domain = {name: float(hit[data.domain_test == k].mean()) for k, name in enumerate(data.domains)}
    matrix = confusion.reshape(classes, classes).cpu().numpy()
    return Evaluation(matrix, float(loss) / len(data.y_test), per_domain)


def drift_diversity(moves: Sequence[tuple[Mapping[str, Tensor], Mapping[str, Tensor]]]) -> float | None:
    """xi = sum_i ||m_i||^2 / ||sum_i m_i||^2, m_i = w_i - w from the (start, end) of each client in the round.

    Trainable parameters only. 1/N when all drifts coincide, 1 when they are orthogonal, large when they cancel, None
    when their sum is 0.
    """
    each, together = 0.0, 0.0
    for name in moves[0][0]:
        drifts = [end[name].double() - start[name].double() for start, end in moves]
        each += sum(float(d.square().sum()) for d in drifts)
        together += float(torch.stack(drifts).sum(0).square().sum())
    return each / together if together > 0 else None
