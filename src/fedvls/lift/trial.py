"""What a module does not announce, found out by a forward pass on a few samples; nothing of it is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from .. import rng
from ..models.dropout import keyed
from .masked import Rows


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
    """Whether padding leaves the real samples' outputs alone: tried on samples, with and without one more.

    A custom layer may look across the batch in ways that nobody announces; then minibatches keep their own width.
    """
    if len(x) < 3:
        return False
    rows.real = torch.tensor(2)
    with _tried(module, x) as x:
        return bool(torch.allclose(_logits(module, x[:2]), _logits(module, x[:3])[:2], rtol=1e-3, atol=1e-4))


def draws_on_its_own(module: nn.Module, x: Tensor) -> bool:
    """Whether the module draws from PyTorch's generator, which only the sequential engine can key: tried on samples."""
    with _tried(module, x) as x:
        before = _generator_state(x.device)
        _logits(module, x)
        return not torch.equal(_generator_state(x.device), before)


def _generator_state(device: torch.device) -> Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()
