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
        pooled: ClassStatistics | None = None
        for indices in setting.split.indices:
            own = class_statistics(group, torch.from_numpy(indices), setting)
            pooled = own if pooled is None else pooled.joined(own)
        assert pooled is not None
        classes = np.flatnonzero(pooled.count >= 2)
        if len(classes) == 0:
            return groups
        drawn = [
            draw_features(pooled.mean[c], pooled.covariance(c), self.virtual_per_class, setting.seed, c)
            for c in classes.tolist()
        ]
        features = np.concatenate(drawn)
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


@dataclass(frozen=True)
class ClassStatistics:
    """count[C], mean[C, d] and scatter[C, d, d] = sum (f - mean)(f - mean)^T of the features of each class, float64."""

    count: np.ndarray
    mean: np.ndarray
    scatter: np.ndarray

    @staticmethod
    def of(features: np.ndarray, labels: np.ndarray, classes: int) -> ClassStatistics:
        """Of these samples."""
        width = features.shape[1]
        mean, scatter = np.zeros((classes, width)), np.zeros((classes, width, width))
        for label in np.unique(labels):
            own = features[labels == label]
            mean[label] = own.mean(0)
            scatter[label] = (own - mean[label]).T @ (own - mean[label])
        return ClassStatistics(np.bincount(labels, minlength=classes), mean, scatter)

    def joined(self, other: ClassStatistics) -> ClassStatistics:
        """Of both sets of samples together, exactly: the paper's pooling formula, one client at a time.

        n = n1 + n2;  mu = mu1 + n2/n (mu2 - mu1);  S = S1 + S2 + n1 n2/n (mu2 - mu1)(mu2 - mu1)^T
        """
        count = self.count + other.count
        share = other.count / np.maximum(count, 1)
        apart = other.mean - self.mean
        weight = self.count * share
        between = weight[:, None, None] * apart[:, :, None] * apart[:, None, :]
        return ClassStatistics(count, self.mean + share[:, None] * apart, self.scatter + other.scatter + between)

    def covariance(self, label: int) -> np.ndarray:
        """Unbiased, of one class."""
        result: np.ndarray = self.scatter[label] / max(int(self.count[label]) - 1, 1)
        return result


@torch.no_grad()
def class_statistics(group: Group, indices: Tensor, setting: Setting) -> ClassStatistics:
    """What one client sends: the statistics of its samples' features under the final model."""
    rows, labels = [], []
    for part in indices.to(setting.data.device).split(1000):  # type: ignore[no-untyped-call]
        x, y = setting.data.train_batch(part)
        rows.append(_features(group.network, group, x).double().cpu())
        labels.append(y.cpu())
    return ClassStatistics.of(torch.cat(rows).numpy(), torch.cat(labels).numpy(), setting.classes)


def _features(network: Network, group: Group, x: Tensor) -> Tensor:
    return network.logits_and_features(group.model, x, train=False)[1]


def draw_features(mean: np.ndarray, covariance: np.ndarray, samples: int, seed: int, label: int) -> np.ndarray:
    """Keyed draws mean + z S, where S is the symmetric square root of the covariance, which may be singular.

    Any S with S'S = covariance has the right distribution. The symmetric one alone does not depend on the signs and
    the order of eigenvectors, which rounding decides, so that engines that differ in the last bit draw the same.
    """
    values, vectors = np.linalg.eigh(covariance)
    rounding = len(values) * np.finfo(values.dtype).eps * max(float(values[-1]), 0.0)
    root = (vectors * np.sqrt(np.where(values > rounding, values, 0.0))) @ vectors.T
    noise = rng.normal(rng.key(seed, "calibration", label), (samples, len(mean)))
    drawn: np.ndarray = mean + noise @ root
    return drawn
