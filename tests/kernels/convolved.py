"""Convolutions with a client axis against autograd in float64, one client after another. Also run on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from fedvls.lift.convolutions import StackedConv2d, with_kernels
from kernels.networks import apart

Case = tuple[int, int, tuple[int, int], dict[str, Any]]

CLIENTS, BATCH = 3, 4
# Channels in and out, sides, then what nn.Conv2d is given: odd sides, more than one block, uneven windows, a stride
# that leaves inputs unseen.
CASES: tuple[Case, ...] = (
    (3, 5, (7, 9), {"kernel_size": 3}),
    (4, 40, (8, 8), {"kernel_size": 3, "stride": 2, "padding": 1, "bias": False}),
    (33, 7, (6, 5), {"kernel_size": 1}),
    (5, 70, (9, 7), {"kernel_size": (3, 5), "stride": (2, 1), "padding": (0, 2), "dilation": (2, 1)}),
    (2, 3, (5, 5), {"kernel_size": 3, "stride": 3, "padding": 1}),
    (40, 65, (3, 3), {"kernel_size": 3, "padding": 1}),
)


# For a GPU, whose matrix units round long sums differently; and a shape for which Triton once made a wrong kernel.
LARGE: tuple[Case, ...] = (
    (3, 20, (64, 64), {"kernel_size": 3}),
    (40, 65, (64, 64), {"kernel_size": 3, "padding": 1}),
    (512, 512, (4, 4), {"kernel_size": 3, "padding": 1}),
    (64, 128, (16, 16), {"kernel_size": 3, "stride": 2, "padding": 1}),
)


def convolutions(device: str = "cpu", cases: Sequence[Case] = CASES) -> None:
    """Outputs and gradients of input, weights and biases; the same bits twice."""
    for seed, (inputs, outputs, size, given) in enumerate(cases):
        random = torch.Generator().manual_seed(seed)
        layer = with_kernels(nn.Conv2d(inputs, outputs, **given))
        assert isinstance(layer, StackedConv2d)
        shapes = [p.shape for p in layer.parameters()]
        x, *params = (torch.randn(CLIENTS, *shape, generator=random) for shape in ((BATCH, inputs, *size), *shapes))
        expected = [_one(layer, *(t[k].double() for t in (x, *params))) for k in range(CLIENTS)]
        mine, again = (_all(layer, x.to(device), [p.to(device) for p in params]) for _ in range(2))
        for found, same, theirs in zip(mine, again, zip(*expected, strict=True), strict=True):
            assert torch.equal(found, same)
            distance = apart(found.cpu(), torch.stack(theirs))
            assert distance < 2e-6, (inputs, outputs, given, distance)


def _all(layer: nn.Module, x: Tensor, params: list[Tensor]) -> list[Tensor]:
    """All clients in one call."""
    names = [name for name, _ in layer.named_parameters()]

    def one(x: Tensor, *params: Tensor) -> Tensor:
        y: Tensor = functional_call(layer, dict(zip(names, params, strict=True)), (x,))
        return y

    leaves = [t.requires_grad_() for t in (x, *params)]
    return _with_gradients(vmap(one)(*leaves), leaves)


def _one(layer: nn.Conv2d, *tensors: Tensor) -> list[Tensor]:
    """One client by PyTorch alone."""
    x, w, *bias = leaves = [t.requires_grad_() for t in tensors]
    y = nn.functional.conv2d(x, w, *(bias or [None]), layer.stride, layer.padding, layer.dilation)
    return _with_gradients(y, leaves)


def _with_gradients(y: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    """The outputs, and the gradients of half their squares."""
    return [y.detach(), *torch.autograd.grad(y.square().sum() / 2, leaves)]
