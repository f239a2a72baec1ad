"""The paper's network for MNIST."""

from __future__ import annotations

import itertools
import math

from torch import Tensor, nn

from .layers import check_at_least
from .registry import MODELS


class Mlp(nn.Module):
    """Flatten, Linear-ReLU blocks, Linear classifier."""

    def __init__(self, inputs: int, hidden: tuple[int, ...], classes: int) -> None:
        super().__init__()
        widths = (inputs, *hidden)
        blocks = [nn.Sequential(nn.Linear(a, b), nn.ReLU()) for a, b in itertools.pairwise(widths)]
        self.body = nn.Sequential(nn.Flatten(), *blocks)
        self.classifier = nn.Linear(widths[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.body(x))
        return logits


@MODELS.register("mlp")
def mlp(sample_shape: tuple[int, ...], classes: int, width: int = 200, depth: int = 2) -> nn.Module:
    """Fully connected, two hidden layers of 200 with ReLU, sized to the data (199,210 parameters on MNIST)."""
    check_at_least("mlp", 1, width=width)
    check_at_least("mlp", 0, depth=depth)
    return Mlp(math.prod(sample_shape), (width,) * depth, classes)
