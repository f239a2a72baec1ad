"""What a model knows: accuracy over all, per class, and on the classes a client lacks, has few or has many of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .data.resident import ResidentData
from .lift import inference
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


Predictions = list[tuple[Tensor, float]]
"""Of every test batch: the predicted classes and the sum of the losses."""


def evaluate(network: Network, state: ModelState, data: ResidentData, classes: int) -> Evaluation:
    """Argmax over all raw logits, eval mode, the whole test set; the loss is plain cross-entropy."""
    return judged(predict(network, state, data), data, classes)


@torch.no_grad()
def predict(network: Network, state: ModelState, data: ResidentData, which: slice = slice(None)) -> Predictions:
    """What the model says of these test batches (by default all), each with its summed cross-entropy in float64."""
    predicted, losses = [], []
    see = inference(network, state, data.device)
    for x, labels in data.test_batches(which):
        logits, _ = see(x)
        predicted.append(logits.argmax(-1))
        losses.append(torch.nn.functional.cross_entropy(logits.double(), labels, reduction="sum"))
    return list(zip(predicted, torch.stack(losses).tolist() if losses else [], strict=True))


def judged(predictions: Predictions, data: ResidentData, classes: int) -> Evaluation:
    """Predictions of all test batches, in order, beside the labels."""
    predicted, loss = torch.cat([p for p, _ in predictions]), 0.0
    for _, part in predictions:  # batch after batch: sum() rounds differently in newer Pythons
        loss += part
    confusion = torch.bincount(data.y_test * classes + predicted, minlength=classes**2).reshape(classes, classes)
    per_domain = {}
    if getattr(data, "domain_test", None) is not None:
        hit = (predicted == data.y_test).double()
        per_domain = {name: float(hit[data.domain_test == k].mean()) for k, name in enumerate(data.domains)}
    return Evaluation(confusion.cpu().numpy(), loss / len(data.y_test), per_domain)


def drift_diversity(moves: Sequence[tuple[Mapping[str, Tensor], Mapping[str, Tensor]]]) -> float | None:
    """xi = sum_i ||m_i||^2 / ||sum_i m_i||^2, m_i = w_i - w from the (start, end) of each client in the round.

    Trainable parameters only. 1/N when all drifts coincide, 1 when they are orthogonal, large when they cancel, None
    when their sum is 0.
    """
    each, together = 0.0, 0.0
    for name, like in moves[0][0].items():
        total = torch.zeros_like(like, dtype=torch.float64)
        for start, end in moves:  # one after another: a stack of a large cohort's drifts would be its largest tensor
            drift = end[name].double() - start[name].double()
            each += float(drift.square().sum())
            total += drift
        together += float(total.square().sum())
    return each / together if together > 0 else None
