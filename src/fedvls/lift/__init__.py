"""Modules lifted to a leading client axis; `lift` picks the fastest form."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .. import kernels
from ..models.chain import parts
from ..models.network import ModelState, Network
from ..numerics import half_precision
from .base import Forward, Lifted
from .chain import Chain
from .columns import Columns
from .functional import OneByOne, Vectorised
from .trial import SAMPLES, draws_on_its_own, samples_are_apart_in_evaluation

__all__ = [
    "SAMPLES",
    "Forward",
    "Lifted",
    "OneByOne",
    "Vectorised",
    "chain_of",
    "draws_on_its_own",
    "inference",
    "lift",
    "lifted_by_hand",
    "samples_are_apart_in_evaluation",
]


def lifted_by_hand(network: Network, device: torch.device, dtype: torch.dtype) -> Lifted | None:
    """The network in a form written for stacks, if there is one: chains of Linear layers, fastText, and on CUDA the
    convolutional networks that the package has kernels for."""
    chain = chain_of(network, device)
    if chain is not None:
        return chain
    if dtype == torch.float64 or not kernels.available(device):
        return None
    return kernels.convnet(network.prototype, half_precision() or dtype, torch.backends.cuda.matmul.allow_tf32)


def chain_of(network: Network, device: torch.device) -> Chain | None:
    """The network as a chain, in the layout that its device likes; None if it is anything else. Features are what the
    last layer takes."""
    found = parts(network.prototype)
    if found is None or found.layers[-1].weight != f"{network.classifier}.weight":
        return None
    kind = Columns if device.type == "cpu" and not kernels.available(device) else Chain
    return kind(found.layers, found.embedding)


def lift(network: Network, samples: Tensor, dtype: torch.dtype) -> Lifted:
    """The network with a client axis: written for stacks, else through `torch.func`. samples: a few of its inputs."""
    return lifted_by_hand(network, samples.device, dtype) or Vectorised(network, samples)


def inference(network: Network, state: ModelState, device: torch.device) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """Logits and features of large batches in eval mode, by the fastest way there is."""
    dtype = next(iter(state.params.values())).dtype
    if dtype != torch.float64 and kernels.available(device):
        short = torch.backends.cuda.matmul.allow_tf32
        folded = kernels.folded(network.prototype, state.tensors(), half_precision() or dtype, short)
        if folded is not None:
            return folded
    chain = chain_of(network, device)
    if isinstance(chain, Columns):
        return chain.inference(state.params)
    return lambda x: network.logits_and_features(state, x, train=False)
