"""CCVR: after the last round, the classifier is retrained on virtual features (Luo et al., NeurIPS 2021)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import rng
from ..models.network import Network
from .base import Group, Program, Setting


@dataclass(frozen=True)
class Calibration(Program):
    """Clients send per class the count, mean and covariance of their features; the server samples from the pooled
    Gaussians and retrains the classifier alone."""

    virtual_per_class: int = 500
    epochs: int = 10
    lr: float = 0.01

    def finish(self, setting: Setting, groups: list[Group]) -> list[Group]:
        (group,) = groups
        statistics = [class_statistics(group, torch.from_numpy(indices), setting) for indices in setting.split.indices]
        count, mean, covariance = pool_statistics(*(np.stack(part) for part in zip(*statistics, strict=True)))
        classes = np.flatnonzero(count >= 2)
        if len(classes) == 0:
            return groups
        features = np.concatenate(
            [draw_features(mean[c], covariance[c], self.virtual_per_class, setting.seed, int(c)) for c in classes]
        )
        labels = np.repeat(classes, self.virtual_per_class)
        return [replace(group, model=group.model.updated(self._retrain(group, features, labels, setting)))]

    def _retrain(self, group: Group, features: np.ndarray, labels: np.ndarray, setting: Setting) -> dict[str, Tensor]:
        """Cross-entropy on the virtual features, for the classifier's own parameters."""
        network = group.network
        prefix = f"{network.classifier}."
        own = {k: v.clone().requires_grad_() for k, v in group.model.params.items() if k.startswith(prefix)}
        head = network.prototype.get_submodule(network.classifier)
        x = torch.from_numpy(features).to(setting.data.device, setting.data.dtype)
        y = torch.from_numpy(labels).to(setting.data.device)
        optimizer = torch.optim.SGD(own.values(), lr=self.lr, momentum=0.9)
        for epoch in range(self.epochs):
            order = rng.permutation(rng.key(setting.seed, "calibration-order", epoch), len(labels))
            for rows in torch.from_numpy(order).to(setting.data.device).split(setting.recipe.batch_size):  # type: ignore[no-untyped-call]
                optimizer.zero_grad()
                named = {k.removeprefix(prefix): v for k, v in own.items()}
                logits = torch.func.functional_call(head, named, (x[rows],))
                torch.nn.functional.cross_entropy(logits, y[rows]).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        return {k: v.detach() for k, v in own.items()}

    @property
    def spec(self) -> dict[str, Any]:
        return {"name": "calibration", **self.__dict__}


@torch.no_grad()
def class_statistics(group: Group, indices: Tensor, setting: Setting) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One client's (count[C], mean[C, d], covariance[C, d, d]) of the features of its samples, in float64."""
    rows, labels = [], []
    for part in indices.to(setting.data.device).split(1000):  # type: ignore[no-untyped-call]
        x, y = setting.data.train_batch(part)
        rows.append(_features(group.network, group, x).double().cpu())
        labels.append(y.cpu())
    features, targets = torch.cat(rows).numpy(), torch.cat(labels).numpy()
    width = features.shape[1]
    count = np.bincount(targets, minlength=setting.classes)
    mean = np.zeros((setting.classes, width))
    covariance = np.zeros((setting.classes, width, width))
    for label in np.flatnonzero(count):
        own = features[targets == label]
        mean[label] = own.mean(0)
        if count[label] > 1:
            covariance[label] = np.cov(own, rowvar=False).reshape(width, width)
    return count, mean, covariance


def _features(network: Network, group: Group, x: Tensor) -> Tensor:
    return network.logits_and_features(group.model, x, train=False)[1]


def pool_statistics(
    count: np.ndarray, mean: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts, means and covariances per class of all clients' samples together, from each client's.

    mu = sum_k n_k mu_k / n;  Sigma = [ sum_k (n_k - 1) Sigma_k + sum_k n_k (mu_k - mu)(mu_k - mu)^T ] / (n - 1), which
    is the paper's formula with its two last sums taken together (no cancellation).
    """
    total = count.sum(0)
    pooled = (count[..., None] * mean).sum(0) / np.maximum(total, 1)[:, None]
    within = (np.maximum(count - 1, 0)[..., None, None] * covariance).sum(0)
    apart = mean - pooled
    between = np.einsum("kc,kci,kcj->cij", count.astype(float), apart, apart)
    return total, pooled, (within + between) / np.maximum(total - 1, 1)[:, None, None]


def draw_features(mean: np.ndarray, covariance: np.ndarray, samples: int, seed: int, label: int) -> np.ndarray:
    """Keyed draws from N(mean, covariance); a singular covariance is fine (eigenvalues, negative ones cut)."""
    values, vectors = np.linalg.eigh(covariance)
    noise = rng.normal(rng.key(seed, "calibration", label), (samples, len(mean)))
    drawn: np.ndarray = mean + (noise * np.sqrt(np.maximum(values, 0))) @ vectors.T
    return drawn
