"""What a model knows: accuracy over all, per class, and on the classes a client lacks, has few or has many of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .data.resident import ResidentData
from .flat import flattened, square_sums, unflattened
from .lift import chain_of, inference
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


Predictions = list[tuple[Tensor, Tensor]]
"""Of every test batch: the predicted classes and the sum of the losses."""


def evaluate(network: Network, state: ModelState, data: ResidentData, classes: int) -> Evaluation:
    """Argmax over all raw logits, eval mode, the whole test set; the loss is plain cross-entropy."""
    return evaluate_each(network, [state], data, classes)[0]


def evaluate_each(network: Network, states: Sequence[ModelState], data: ResidentData, classes: int) -> list[Evaluation]:
    """Several models, one after another."""
    return judged((predict(network, state, data) for state in states), data, classes)


@torch.no_grad()
def predict(network: Network, state: ModelState, data: ResidentData, which: slice = slice(None)) -> Predictions:
    """What the model says of these test batches (by default all), each with its summed cross-entropy in float64."""
    found = []
    see, of_chain = inference(network, state, data.device), chain_of(network, data.device) is not None
    for x, labels in data.test_batches(which, of_chain=of_chain):
        logits, _ = see(x)
        loss = torch.nn.functional.cross_entropy(logits.double(), labels, reduction="sum")
        found.append((logits.argmax(-1), loss))
    return found


def judged(models: Iterable[Predictions], data: ResidentData, classes: int) -> list[Evaluation]:
    """Each model's predictions of all test batches, in order, beside the labels; read from the device together."""
    numbers = []
    for predictions in models:
        predicted = torch.cat([batch for batch, _ in predictions])
        cells = data.y_test * classes + predicted
        if data.domain_test is not None:
            cells += data.domain_test * classes**2
        counts = torch.zeros(max(len(data.domains), 1) * classes**2, dtype=torch.int64, device=cells.device)
        counts.scatter_add_(0, cells, torch.ones_like(cells))  # bincount would wait for the largest entry
        numbers.append(torch.cat([counts, torch.stack([loss for _, loss in predictions])]))
    return [_judged(row, data, classes) for row in torch.stack(numbers).cpu().numpy()] if numbers else []


def _judged(row: np.ndarray, data: ResidentData, classes: int) -> Evaluation:
    """One model: a confusion matrix per domain (or one in all), then the loss of every batch."""
    domains = max(len(data.domains), 1)
    each, losses = np.split(row, [domains * classes**2])
    confusions = each.astype(np.int64).reshape(domains, classes, classes)
    loss = 0.0
    for part in losses.tolist():  # batch after batch: sum() rounds differently in newer Pythons
        loss += part
    per_domain = {name: float(np.trace(own) / own.sum()) for name, own in zip(data.domains, confusions, strict=False)}
    return Evaluation(confusions.sum(0), loss / len(data.y_test), per_domain)


def drift_diversity(moves: Sequence[tuple[Mapping[str, Tensor], Mapping[str, Tensor]]]) -> float | None:
    """xi = sum_i ||m_i||^2 / ||sum_i m_i||^2, m_i = w_i - w from the (start, end) of each client in the round.

    Trainable parameters only. 1/N when all drifts coincide, 1 when they are orthogonal, large when they cancel, None
    when their sum is 0.
    """
    like = moves[0][0]
    total = torch.zeros_like(flattened(like, torch.float64)[0])
    sums = []
    for start, end in moves:  # one after another: a stack of a large cohort's drifts would be its largest tensor
        drift, _ = flattened({name: end[name] for name in like}, torch.float64)
        drift -= flattened(start, torch.float64)[0]
        total += drift
        sums.append(torch.stack(square_sums(unflattened(drift, like))))
    sums.append(torch.stack(square_sums(unflattened(total, like))))
    each, together = 0.0, 0.0
    for *clients, of_total in torch.stack(sums).t().tolist():  # tensor by tensor; read from the device together
        for number in clients:
            each += number
        together += of_total
    return each / together if together > 0 else None
