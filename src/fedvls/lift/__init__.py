"""Modules lifted to a leading client axis; `lift` picks the fastest form."""

from __future__ import annotations

import torch
from torch import Tensor

from ..models.network import Network
from .base import Forward, Lifted
from .chain import chain_of
from .functional import OneByOne, Vectorised

__all__ = ["Forward", "Lifted", "OneByOne", "Vectorised", "lift", "lifted_by_hand"]


def lifted_by_hand(network: Network, device: torch.device) -> Lifted | None:
    """The network in a form written for stacks, if there is one: chains of Linear layers, fastText, and on CUDA the
    convolutional networks that the package has kernels for."""
    chain = chain_of(network.prototype)
    if chain is not None:
        return chain
    return None


def lift(network: Network, samples: Tensor) -> Lifted:
    """The network with a client axis: written for stacks, else through `torch.func`. samples: a few of its inputs."""
    return lifted_by_hand(network, samples.device) or Vectorised(network, samples)
