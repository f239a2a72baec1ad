"""Weights drawn from keyed random words, so that a model's start depends on the seed alone.

PyTorch's own initialisation reads the global generator; modules are therefore built without storage and filled here
with the same distributions.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from .. import rng
from ..errors import UsageError


def build_with_seed(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    """`build()` with every parameter drawn from `rng.key(seed, "init", name)`."""
    with torch.device("meta"):
        module = build()
    module = module.to_empty(device="cpu")
    for name, layer in module.named_modules():
        initialise(layer, name, seed)
    return module


def initialise(layer: nn.Module, name: str, seed: int) -> None:
    """PyTorch's default for this layer: weight and bias uniform in +-1/sqrt(fan_in)."""
    own = dict(layer.named_parameters(recurse=False))
    if isinstance(layer, nn.Linear | nn.Conv2d):
        bound = 1 / math.sqrt(layer.weight[0].numel())
        for kind, parameter in own.items():
            _fill(parameter, seed, f"{name}.{kind}", bound)
    elif isinstance(layer, nn.modules.batchnorm._BatchNorm):
        layer.reset_parameters()  # ones and zeros: no draw
    elif own or list(layer.named_buffers(recurse=False)):
        raise UsageError(f"no keyed initialisation for {type(layer).__name__} {name!r}; pass a built module instead")


@torch.no_grad()
def _fill(parameter: Tensor, seed: int, name: str, bound: float) -> None:
    values = rng.uniform(rng.key(seed, "init", name), parameter.shape)
    parameter.copy_(torch.from_numpy((2 * values - 1) * bound))
