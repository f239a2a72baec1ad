"""FedConcat: clusters of alike clients train encoders; the concatenated encoders get one classifier."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..errors import UsageError
from ..models.init import initialise
from ..models.network import ModelState, Network
from .base import Group, Program, Setting
from .clustering import cluster_label_distributions

CLASSIFIER_ROUNDS_PER_ENCODER_ROUND = 20  # the original's 1000 to 50


class Concatenated(nn.Module):
    """Frozen encoders side by side, in eval mode always, and a linear classifier over their features."""

    def __init__(self, encoders: Sequence[nn.Module], features: int, classes: int) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(encoders)
        self.classifier = nn.Linear(features * len(encoders), classes)
        for parameter in self.encoders.parameters():
            parameter.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(torch.cat([encoder(x) for encoder in self.encoders], -1))
        return logits

    def train(self, mode: bool = True) -> Concatenated:
        super().train(mode)
        self.encoders.eval()  # their BatchNorm statistics must not drift
        return self


@dataclass(frozen=True)
class Concatenation(Program):
    """Stage 1: FedAvg inside each cluster. Stage 2: FedAvg of a classifier over the concatenated, frozen encoders."""

    clusters: int | None = None
    encoder_rounds: int | None = None
    classifier_rounds: int | None = None
    batches: int = 3
    initial: Literal["auto", "random", "warm"] = "auto"
    encoder_weight_decay: float | None = None

    def _encoder_rounds(self, asked: int) -> int:
        return asked if self.encoder_rounds is None else self.encoder_rounds

    def total_rounds(self, asked: int) -> int:
        second = self.classifier_rounds
        if second is None:
            second = CLASSIFIER_ROUNDS_PER_ENCODER_ROUND * self._encoder_rounds(asked)
        return self._encoder_rounds(asked) + second

    def groups(self, setting: Setting, round: int) -> list[Group]:
        if round <= self._encoder_rounds(setting.rounds):
            return self._encoder_groups(setting)
        return [self._classifier_group(setting, self._encoder_groups(setting))]

    def advance(self, setting: Setting, round: int, groups: list[Group]) -> list[Group]:
        if round == self._encoder_rounds(setting.rounds) + 1:
            return [self._classifier_group(setting, groups)]
        return groups

    def shown(self, setting: Setting, groups: Sequence[Group]) -> tuple[Network, ModelState]:
        """In stage 1 the sum of the clusters' logits, which is what a warm-started classifier begins with."""
        if isinstance(groups[0].network.prototype, Concatenated):
            return groups[0].network, groups[0].model
        return concatenate(setting, groups, warm=True)

    def _encoder_groups(self, setting: Setting) -> list[Group]:
        many = setting.classes > 10
        count = min(self.clusters or (4 if many else 2), setting.split.clients)
        recipe = setting.recipe
        if self.encoder_weight_decay is not None:
            recipe = replace(recipe, weight_decay=self.encoder_weight_decay)
        members = cluster_label_distributions(setting.split.counts, count, setting.seed, 1.2 if many else None)
        return [
            Group(frozenset(clients), setting.network, setting.start, recipe, setting.weights) for clients in members
        ]

    def _classifier_group(self, setting: Setting, encoders: list[Group]) -> Group:
        warm = self.initial == "warm" or (self.initial == "auto" and setting.classes > 10)
        network, model = concatenate(setting, encoders, warm)
        everyone = frozenset(range(setting.split.clients))
        recipe = replace(setting.recipe, epochs=self.batches, max_steps=self.batches)
        return Group(everyone, network, model, recipe, "uniform")

    @property
    def spec(self) -> dict[str, Any]:
        return {"name": "concatenation", **self.__dict__}


def concatenate(setting: Setting, groups: Sequence[Group], warm: bool) -> tuple[Network, ModelState]:
    """One network of the groups' encoders. Warm: their classifiers side by side, biases summed, so logits add up."""
    prototype, name = setting.network.prototype, setting.network.classifier
    head = prototype.get_submodule(name)
    if not isinstance(head, nn.Linear):
        raise UsageError(f"fedconcat needs a Linear classifier; {name!r} is a {type(head).__name__}")
    encoders = []
    for _ in groups:
        encoder = copy.deepcopy(prototype)
        encoder.set_submodule(name, nn.Identity())
        encoders.append(encoder)
    module = Concatenated(encoders, head.in_features, setting.classes)
    network = Network(_initialised(module, setting.seed), setting.classes, "classifier")
    device, dtype = setting.data.device, setting.data.dtype
    tensors = {}
    for number, group in enumerate(groups):
        for key, tensor in group.model.tensors().items():
            if not key.startswith(f"{name}."):
                tensors[f"encoders.{number}.{key}"] = tensor
    if warm:
        heads = [group.model.tensors() for group in groups]
        tensors["classifier.weight"] = torch.cat([h[f"{name}.weight"] for h in heads], -1)
        zero = torch.zeros(setting.classes, dtype=dtype, device=device)
        tensors["classifier.bias"] = torch.stack([h.get(f"{name}.bias", zero) for h in heads]).sum(0)
    return network, network.start(device, dtype).updated(tensors).copy()


def _initialised(module: Concatenated, seed: int) -> Concatenated:
    initialise(module.classifier, "concatenated", seed)
    return module
