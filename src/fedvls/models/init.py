"""Weights drawn from keyed random words, so that a model's start depends on the seed alone.

PyTorch's own initialisation reads the global generator; modules are therefore built without storage and filled here
with the same distributions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from .. import rng
from ..errors import UsageError

WeightRule = Literal["default", "kaiming-normal", "kaiming-normal-fan-out"]
"""How weights start: as PyTorch's own; Linear and convolutions normal with variance 2 / fan_in; or convolutions alone
normal with variance 2 / fan_out, as torchvision starts its ResNets."""


def build_with_seed(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    """`build()` with every parameter drawn from `rng.key(seed, "init", name)`.

    A module that wants another start than PyTorch's default has an attribute `weight_rule`.
    """
    with torch.device("meta"):
        module = build()
    module = module.to_empty(device="cpu")
    rule: Any = getattr(module, "weight_rule", "default")
    if rule not in get_args(WeightRule):
        raise UsageError(f"weight_rule = {rule!r} is not one of {', '.join(map(repr, get_args(WeightRule)))}")
    for name, layer in module.named_modules():
        initialise(layer, name, seed, rule)
    return module


def initialise(layer: nn.Module, name: str, seed: int, rule: WeightRule = "default") -> None:
    """PyTorch's default for this layer: weight and bias uniform in +-1/sqrt(fan_in), embeddings standard normal.

    `rule` changes the weights of Linear and convolution layers, not their biases.
    """
    own = dict(layer.named_parameters(recurse=False))
    if isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d):
        fan_in = layer.weight[0].numel()  # one output's inputs, which are those of its group
        for kind, parameter in own.items():
            fan_out = parameter.shape[0] * math.prod(parameter.shape[2:])
            if kind == "weight" and rule == "kaiming-normal":
                _fill_normal(parameter, seed, f"{name}.{kind}", math.sqrt(2 / fan_in))
            elif kind == "weight" and rule == "kaiming-normal-fan-out" and not isinstance(layer, nn.Linear):
                _fill_normal(parameter, seed, f"{name}.{kind}", math.sqrt(2 / fan_out))
            else:
                _fill_uniform(parameter, seed, f"{name}.{kind}", 1 / math.sqrt(fan_in))
    elif isinstance(layer, nn.Embedding):
        _fill_normal(layer.weight, seed, f"{name}.weight", 1.0)
        if layer.padding_idx is not None:
            layer.weight.data[layer.padding_idx] = 0
    elif isinstance(layer, nn.modules.batchnorm._NormBase | nn.LayerNorm | nn.GroupNorm):
        layer.reset_parameters()  # ones and zeros: no draw
    elif own or list(layer.named_buffers(recurse=False)):
        raise UsageError(f"no keyed initialisation for {type(layer).__name__} {name!r}; pass a built module instead")


@torch.no_grad()
def _fill_uniform(parameter: Tensor, seed: int, name: str, bound: float) -> None:
    values = rng.uniform(rng.key(seed, "init", name), parameter.shape)
    parameter.copy_(torch.from_numpy((2 * values - 1) * bound))


@torch.no_grad()
def _fill_normal(parameter: Tensor, seed: int, name: str, deviation: float) -> None:
    values = rng.normal(rng.key(seed, "init", name), parameter.shape)
    parameter.copy_(torch.from_numpy(values * deviation))
