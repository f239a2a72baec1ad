"""Shared by the tests of the kernels: small networks of the known kind, and cohorts of them against autograd."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fedvls import kernels
from fedvls.models.init import build_with_seed
from fedvls.models.layers import GlobalAverage, Images, normalised
from fedvls.models.mobilenetv2 import InvertedResidual, MobileNetV2
from fedvls.numerics import repeatable


def small_network(channels: int = 3, classes: int = 5) -> nn.Module:
    """MobileNetV2's parts, few and narrow: both strides, all three kinds of shortcut, channels that fill no block."""
    blocks = [InvertedResidual(*shape) for shape in ((12, 8, 1, 1), (8, 8, 3, 1), (8, 20, 2, 2), (20, 70, 1, 1))]
    return nn.Sequential(
        OrderedDict(
            images=Images(),
            stem=nn.Sequential(*normalised(channels, 12, 3), nn.ReLU()),
            blocks=nn.Sequential(*blocks),
            top=nn.Sequential(*normalised(70, 24, 1), nn.ReLU()),
            average=GlobalAverage(),
            classifier=nn.Linear(24, classes),
        )
    )


@dataclass
class Cohort:
    """K networks that differ, their tensors views of one matrix as in a stack, and gradients for their outputs."""

    module: nn.Module
    params: dict[str, Tensor]
    buffers: dict[str, Tensor]
    into: dict[str, Tensor]
    x: Tensor
    rows: list[int]
    d_logits: Tensor
    d_features: Tensor

    @property
    def real(self) -> Tensor:
        return torch.tensor(self.rows, dtype=torch.int32, device=self.x.device)

    def train(self, compute: torch.dtype, tf32: bool = False) -> tuple[Tensor, Tensor]:
        """Forward and backward by the kernels: logits and features; gradients lie in `into`, statistics have moved."""
        network = kernels.convnet(self.module, compute, tf32)
        assert network is not None
        forward = network.forward(self.params, self.buffers, self.x, self.real, features=True, statistics=True)
        network.backward(forward, self.d_logits, self.d_features, self.into)
        assert forward.features is not None
        return forward.logits, forward.features

    def by_autograd(self, k: int, buffers: dict[str, Tensor], dtype: torch.dtype) -> One:
        """The same for one client by the module itself, one that has these buffers."""
        module, real = self.module.to(dtype).train(), self.rows[k]
        params = {name: p[k].to(dtype).requires_grad_() for name, p in self.params.items()}
        moved = {name: b[k].to(dtype) if b.is_floating_point() else b[k].clone() for name, b in buffers.items()}
        caught: list[Tensor] = []
        hook = module.get_submodule("classifier").register_forward_pre_hook(lambda _, args: caught.append(args[0]))
        logits = functional_call(module, {**params, **moved}, (self.x[k, :real].to(dtype),))
        hook.remove()
        loss = (logits * self.d_logits[k, :real]).sum() + (caught[0] * self.d_features[k, :real]).sum()
        slopes = dict(zip(params, torch.autograd.grad(loss, list(params.values())), strict=True))
        return One(logits.detach(), caught[0].detach(), slopes, moved)


class One(NamedTuple):
    """What training one client's minibatch gives."""

    logits: Tensor
    features: Tensor
    slopes: dict[str, Tensor]
    buffers: dict[str, Tensor]


def cohort(
    module: nn.Module, rows: list[int], batch: int, size: int, dtype: torch.dtype, seed: int = 0, device: str = "cpu"
) -> Cohort:
    random = torch.Generator().manual_seed(seed)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=random, dtype=dtype).to(device)

    module = module.to(device, dtype)
    clients, channels = len(rows), module.get_submodule("stem")[0].in_channels  # type: ignore[index]
    named = dict(module.named_parameters())
    matrix = torch.empty(clients, sum(p.numel() for p in named.values()) + 3, dtype=dtype, device=device)
    slopes = torch.full_like(matrix, torch.nan)
    params, into, end = {}, {}, 1
    for name, p in named.items():
        params[name], into[name] = (m[:, end : end + p.numel()].unflatten(1, p.shape) for m in (matrix, slopes))
        noise = drawn(*params[name].shape)
        params[name].copy_(p.detach() + 0.1 * noise * (p.detach().std() if p.dim() > 1 else 1))
        end += p.numel()
    buffers = {name: b.repeat(clients, *(1,) * b.dim()) for name, b in module.named_buffers()}
    features, classes = module.get_submodule("classifier").in_features, module.get_submodule("classifier").out_features
    x = drawn(clients, batch, channels, size, size)
    d_logits, d_features = (drawn(clients, batch, n) for n in (classes, features))  # type: ignore[arg-type]
    return Cohort(module, params, buffers, into, x, rows, d_logits, 0.1 * d_features)


def errors(cohort: Cohort, compute: torch.dtype) -> dict[str, float]:
    """Largest relative error over the clients of what the kernels give, against autograd of the module in float64."""
    before = {name: tensor.clone() for name, tensor in cohort.buffers.items()}
    logits, features = cohort.train(compute)
    found: dict[str, float] = {}
    for k, real in enumerate(cohort.rows):
        exact = cohort.by_autograd(k, before, torch.float64)
        moved = {name: b for name, b in exact.buffers.items() if b.is_floating_point()}
        assert all(int(cohort.buffers[name][k]) == int(b) for name, b in exact.buffers.items() if name not in moved)
        pairs = {
            "logits": (logits[k, :real], exact.logits),
            "features": (features[k, :real], exact.features),
            "gradients": (flat({name: g[k] for name, g in cohort.into.items()}), flat(exact.slopes)),
            "statistics": (flat({name: cohort.buffers[name][k] for name in moved}), flat(moved)),
        }
        for what, (mine, theirs) in pairs.items():
            found[what] = max(found.get(what, 0.0), apart(mine, theirs))
    return found


def gradient_errors(cohort: Cohort) -> dict[str, tuple[float, float]]:
    """For every layer the largest relative error over the clients of its gradient by the kernels, and by autograd in
    float32, both against autograd in float64.

    A layer's weight and bias count together, because the next BatchNorm takes away the shift of some: their gradient is
    0, and what rounding leaves of it has nothing else to be measured by.
    """
    before = {name: tensor.clone() for name, tensor in cohort.buffers.items()}
    with repeatable(cohort.x.device, torch.get_num_threads()):
        cohort.train(torch.float32)
        plain = [cohort.by_autograd(k, before, torch.float32).slopes for k in range(len(cohort.rows))]
    found: dict[str, tuple[float, float]] = {}
    for k, theirs in enumerate(plain):
        exact = cohort.by_autograd(k, before, torch.float64).slopes
        mine = {name: slope[k] for name, slope in cohort.into.items()}
        for layer in {name.rpartition(".")[0] for name in exact}:
            own = [
                flat({name: slope for name, slope in slopes.items() if name.rpartition(".")[0] == layer})
                for slopes in (mine, theirs, exact)
            ]
            both = found.get(layer, (0.0, 0.0))
            found[layer] = max(both[0], apart(own[0], own[2])), max(both[1], apart(own[1], own[2]))
    return found


def papers_network() -> nn.Module:
    """MobileNetV2 for CIFAR-10, always the same."""
    return build_with_seed(lambda: MobileNetV2(3, 10), seed=0)


def flat(tensors: dict[str, Tensor]) -> Tensor:
    return torch.cat([tensors[name].double().flatten() for name in sorted(tensors)])


def apart(mine: Tensor, theirs: Tensor) -> float:
    """Relative error in the norm; a NaN is an infinite one."""
    error = float((mine.double() - theirs.double()).norm() / theirs.double().norm())
    return error if error == error else float("inf")
