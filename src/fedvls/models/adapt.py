"""Changes that a method makes to the model it is given."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import nn

from ..errors import UsageError
from .init import initialise
from .network import Network

Adapt = Callable[[Network, int, int], Network]
"""(network, number of classes, seed) -> the network to train instead."""


def projection_head(width: int = 256, hidden: str = "half") -> Adapt:
    """MOON: the classifier d -> C becomes d -> d//2 -> ReLU -> width -> C; "full" keeps d in between.

    Features are then the projection, which the classifier reads. The new layers are drawn from the model's seed.
    """

    def adapt(network: Network, classes: int, seed: int) -> Network:
        module = copy.deepcopy(network.prototype)
        head = module.get_submodule(network.classifier)
        if not isinstance(head, nn.Linear):
            kind = type(head).__name__
            raise UsageError(f"a projection head needs a Linear classifier; {network.classifier!r} is a {kind}")
        inputs = head.in_features
        middle = inputs if hidden == "full" else max(inputs // 2, 1)
        with torch.device("meta"):
            layers = nn.Sequential(
                nn.Linear(inputs, middle), nn.ReLU(), nn.Linear(middle, width), nn.Linear(width, classes)
            )
        layers = layers.to_empty(device="cpu").to(head.weight.dtype)
        for name, layer in layers.named_modules():
            initialise(layer, f"projection.{name}", seed)
        module.set_submodule(network.classifier, layers)
        return Network(module, classes, f"{network.classifier}.3")

    return adapt
