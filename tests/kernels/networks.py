"""Shared by the tests of the kernels: small networks of the known kind, and cohorts of them against autograd."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fedvls import kernels
from fedvls.models.layers import GlobalAverage, Images, normalised
from fedvls.models.mobilenetv2 import InvertedResidual


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
        return torch.tensor(self.rows, dtype=torch.int32)

    def train(self, compute: torch.dtype) -> tuple[Tensor, Tensor]:
        """Forward and backward by the kernels: logits and features; gradients lie in `into`, statistics have moved."""
        network = kernels.convnet(self.module, compute)
        assert network is not None
        forward = network.forward(self.params, self.buffers, self.x, self.real, features=True, statistics=True)
        network.backward(forward, self.d_logits, self.d_features, self.into)
        assert forward.features is not None
        return forward.logits, forward.features


def cohort(module: nn.Module, rows: list[int], batch: int, size: int, dtype: torch.dtype, seed: int = 0) -> Cohort:
    random = torch.Generator().manual_seed(seed)
    module = module.to(dtype)
    clients, channels = len(rows), module.get_submodule("stem")[0].in_channels  # type: ignore[index]
    named = dict(module.named_parameters())
    matrix = torch.empty(clients, sum(p.numel() for p in named.values()) + 3, dtype=dtype)
    slopes = torch.full_like(matrix, torch.nan)
    params, into, end = {}, {}, 1
    for name, p in named.items():
        params[name], into[name] = (m[:, end : end + p.numel()].unflatten(1, p.shape) for m in (matrix, slopes))
        noise = torch.randn(params[name].shape, generator=random, dtype=dtype)
        params[name].copy_(p.detach() + 0.1 * noise * (p.detach().std() if p.dim() > 1 else 1))
        end += p.numel()
    buffers = {name: b.repeat(clients, *(1,) * b.dim()) for name, b in module.named_buffers()}
    features, classes = module.get_submodule("classifier").in_features, module.get_submodule("classifier").out_features
    drawn = (
        torch.randn(shape, generator=random, dtype=dtype)
        for shape in (
            (clients, batch, channels, size, size),
            (clients, batch, classes),
            (clients, batch, features),  # type: ignore[arg-type]
        )
    )
    x, d_logits, d_features = drawn
    return Cohort(module, params, buffers, into, x, rows, d_logits, 0.1 * d_features)


def errors(cohort: Cohort, compute: torch.dtype) -> dict[str, float]:
    """Largest relative error over the clients of what the kernels give, against autograd of the module in float64."""
    before = {name: tensor.clone() for name, tensor in cohort.buffers.items()}
    logits, features = cohort.train(compute)
    module = cohort.module.double().train()
    found: dict[str, float] = {}
    for k, real in enumerate(cohort.rows):
        params = {name: p[k].double().requires_grad_() for name, p in cohort.params.items()}
        buffers = {name: b[k].double() if b.is_floating_point() else b[k].clone() for name, b in before.items()}
        caught: list[Tensor] = []
        hook = module.get_submodule("classifier").register_forward_pre_hook(
            lambda _, args, to=caught: to.append(args[0])
        )
        out = functional_call(module, {**params, **buffers}, (cohort.x[k, :real].double(),))
        hook.remove()
        loss = (out * cohort.d_logits[k, :real]).sum() + (caught[0] * cohort.d_features[k, :real]).sum()
        slopes = dict(zip(params, torch.autograd.grad(loss, list(params.values())), strict=True))
        moved = {name: b for name, b in buffers.items() if b.is_floating_point()}
        assert all(int(cohort.buffers[name][k]) == int(b) for name, b in buffers.items() if name not in moved)
        pairs = {
            "logits": (logits[k, :real], out.detach()),
            "features": (features[k, :real], caught[0].detach()),
            "gradients": (flat({name: g[k] for name, g in cohort.into.items()}), flat(slopes)),
            "statistics": (flat({name: cohort.buffers[name][k] for name in moved}), flat(moved)),
        }
        for what, (mine, theirs) in pairs.items():
            found[what] = max(found.get(what, 0.0), apart(mine, theirs))
    return found


def flat(tensors: dict[str, Tensor]) -> Tensor:
    return torch.cat([tensors[name].double().flatten() for name in sorted(tensors)])


def apart(mine: Tensor, theirs: Tensor) -> float:
    """Relative error in the norm; a NaN is an infinite one."""
    error = float((mine.double() - theirs.double()).norm() / theirs.double().norm())
    return error if error == error else float("inf")
