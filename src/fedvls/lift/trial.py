"""What a module does not announce, found out by a forward pass on a few samples; nothing of it is kept."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from .. import rng
from ..models.dropout import keyed
from .masked import Rows

SAMPLES = 16
"""So many for a trial: on two or three a small layer behind a ReLU may be silent, and what follows it unseen."""
TOLERANCE = 1e-3
"""Of the largest output: far more than rounding."""


@contextmanager
def _tried(module: nn.Module, x: Tensor) -> Iterator[Tensor]:
    """The samples as the module takes them. Its buffers and PyTorch's generator are put back afterwards."""
    some = next(module.parameters())
    buffers = {name: b.clone() for name, b in module.named_buffers()}
    try:
        with rng.torch_draws(some.device, 0, "trial"), torch.no_grad():
            yield x.to(some.device, some.dtype if x.is_floating_point() else x.dtype)
    finally:
        with torch.no_grad():
            for name, b in module.named_buffers():
                b.copy_(buffers[name])


def _logits(module: nn.Module, x: Tensor) -> Tensor:
    with keyed(torch.zeros(2, dtype=torch.int32, device=x.device)):
        logits: Tensor = module(x)
    return logits


def samples_are_apart(module: nn.Module, x: Tensor, rows: Rows) -> bool:
    """Whether padding leaves the real samples' outputs alone: tried on half of these, with and without the others.

    A custom layer may look across the batch in ways that nobody announces; then minibatches keep their own width.
    """
    if len(x) < 3:
        return False
    rows.real = torch.tensor(_half(x))
    with _tried(module, x) as x:
        return _same_in_company(module, x)


def samples_are_apart_in_evaluation(module: nn.Module, x: Tensor) -> bool:
    """Whether a teacher may see samples in any company: a BatchNorm without running statistics minds it in eval mode,
    too."""
    module = copy.deepcopy(module).eval()
    with _tried(module, x) as x:
        return _same_in_company(module, x)


def _same_in_company(module: nn.Module, x: Tensor) -> bool:
    half = _half(x)
    alone, together = _logits(module, x[:half]), _logits(module, x)[:half]
    return bool((alone - together).abs().max() <= TOLERANCE * alone.abs().max())


def _half(x: Tensor) -> int:
    """Two of three: BatchNorm wants more than one."""
    return (len(x) + 1) // 2


def draws_on_its_own(module: nn.Module, x: Tensor) -> bool:
    """Whether the module draws from PyTorch's generator, which only the sequential engine can key: tried on samples."""
    with _tried(module, x[:2]) as x:
        before = _generator_state(x.device)
        _logits(module, x)
        return not torch.equal(_generator_state(x.device), before)


def _generator_state(device: torch.device) -> Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()
