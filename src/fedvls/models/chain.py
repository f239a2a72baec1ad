"""Modules that are no more than a chain of Linear layers with ReLU in between, perhaps behind a mean of vectors."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from torch import nn

from .mlp import Mlp
from .text import FastText


@dataclass(frozen=True)
class Layer:
    """A Linear layer by the names of its parameters, and whether a ReLU follows."""

    weight: str
    bias: str | None
    relu: bool


@dataclass(frozen=True)
class Parts:
    """What a chain is made of."""

    layers: list[Layer]
    embedding: str | None
    """The parameter that holds a vector per token, if the samples are texts; the first layer takes their mean."""


def parts(module: nn.Module) -> Parts | None:
    """The parts of a chain, or None if the module is anything else."""
    if _is_more_than_its_layers(module):
        return None
    if type(module) is FastText:
        names = ("hidden", "classifier")
        plain = all(type(module.get_submodule(name)) is nn.Linear for name in names)  # MOON puts a head in between
        if plain and all(p.requires_grad for p in module.parameters()):
            return Parts([Layer(f"{name}.weight", f"{name}.bias", False) for name in names], "embedding.weight")
        return None
    found = linear_chain(module)
    return Parts(found, None) if found else None


def _is_more_than_its_layers(module: nn.Module) -> bool:
    """Whether layers share parameters, or hooks do something of their own."""
    each, alone = (list(module.named_parameters(remove_duplicate=duplicate)) for duplicate in (False, True))
    return len(each) != len(alone) or any(
        layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks or layer._backward_pre_hooks
        for layer in module.modules()
    )


def linear_chain(module: nn.Module) -> list[Layer] | None:
    """The module as a chain of Linear layers with ReLU in between, or None if it is anything else."""
    if type(module) is Mlp:
        leaves = [*_leaves(module.body, "body"), ("classifier", module.classifier)]
    elif type(module) is nn.Sequential:
        leaves = _leaves(module, "")
    else:
        return None
    kinds = [type(leaf) for _, leaf in leaves]
    while kinds[:1] == [nn.Flatten]:
        leaves, kinds = leaves[1:], kinds[1:]
    if not kinds or kinds[-1] is not nn.Linear or not set(kinds) <= {nn.Linear, nn.ReLU}:
        return None
    if any(a is b is nn.ReLU for a, b in pairwise(kinds)) or kinds[0] is nn.ReLU:
        return None
    if not all(p.requires_grad for p in module.parameters()) or list(module.buffers()):
        return None
    following = [*kinds[1:], None]
    return [
        Layer(f"{name}.weight", f"{name}.bias" if leaf.bias is not None else None, after is nn.ReLU)
        for (name, leaf), after in zip(leaves, following, strict=True)
        if isinstance(leaf, nn.Linear)
    ]


def _leaves(module: nn.Module, prefix: str) -> list[tuple[str, nn.Module]]:
    found: list[tuple[str, nn.Module]] = []
    for name, child in module._modules.items():  # named_children() would leave out a layer that comes a second time
        if child is None:
            continue
        path = f"{prefix}.{name}" if prefix else name
        found += _leaves(child, path) if type(child) is nn.Sequential else [(path, child)]
    return found
