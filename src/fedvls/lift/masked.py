"""BatchNorm for minibatches that are partly padding: with one width for all, one captured step serves them all."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn


class Rows:
    """How many samples of the minibatch at hand are real; shared by all layers of a module."""

    def __init__(self) -> None:
        self.real: Tensor | None = None


class MaskedBatchNorm(nn.Module):
    """Train mode: mean and variance over the real samples alone. Same tensors under the same names as BatchNorm."""

    def __init__(self, norm: nn.modules.batchnorm._BatchNorm, rows: Rows) -> None:
        super().__init__()
        self.weight, self.bias = norm.weight, norm.bias
        self.running_mean: Tensor | None
        self.running_var: Tensor | None
        self.register_buffer("running_mean", norm.running_mean)
        self.register_buffer("running_var", norm.running_var)
        self.eps, self.momentum, self.rows = norm.eps, norm.momentum or 0.0, rows

    def forward(self, x: Tensor) -> Tensor:
        assert self.rows.real is not None
        axes = (0, *range(2, x.dim()))
        shape = (1, -1, *(1,) * (x.dim() - 2))
        kept = (torch.arange(len(x), device=x.device) < self.rows.real).view(-1, *(1,) * (x.dim() - 1))
        values = x.float() if x.dtype.itemsize < 4 else x
        count = self.rows.real.to(values.dtype) * (x[0, 0].numel())
        mean = torch.where(kept, values, 0.0).sum(axes) / count
        centred = values - mean.view(shape)
        variance = torch.where(kept, centred, 0.0).square().sum(axes) / count
        if self.running_mean is not None and self.running_var is not None:
            with torch.no_grad():
                unbiased = variance.detach() * count / (count - 1)
                for running, now in ((self.running_mean, mean.detach()), (self.running_var, unbiased)):
                    running.mul_(1 - self.momentum).add_(self.momentum * now)
        result = centred * (variance + self.eps).rsqrt().view(shape)
        if self.weight is not None:
            result = result * self.weight.view(shape) + self.bias.view(shape)
        return result.to(x.dtype)


def masked(module: nn.Module, rows: Rows) -> nn.Module:
    """A copy of the module whose BatchNorm layers in train mode look at the real samples only."""
    module = copy.deepcopy(module)
    found = [
        (name, layer)
        for name, layer in module.named_modules()
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.training
    ]
    for name, layer in found:
        if not name:
            return MaskedBatchNorm(layer, rows)
        module.set_submodule(name, MaskedBatchNorm(layer, rows))
    return module
