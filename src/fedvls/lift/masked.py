"""BatchNorm for minibatches that may be partly padding: with one width for all, one captured step serves them all."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .. import kernels


class Rows:
    """How many samples of the minibatch at hand are real, None for all of them; shared by all layers of a module."""

    def __init__(self) -> None:
        self.real: Tensor | None = None


class MaskedBatchNorm(nn.Module):
    """Train mode: mean and variance over the real samples alone. Same tensors under the same names as BatchNorm."""

    def __init__(self, norm: nn.modules.batchnorm._BatchNorm, rows: Rows, by_kernel: bool) -> None:
        super().__init__()
        self.weight, self.bias = norm.weight, norm.bias
        self.running_mean: Tensor | None
        self.running_var: Tensor | None
        self.register_buffer("running_mean", norm.running_mean)
        self.register_buffer("running_var", norm.running_var)
        assert norm.momentum is not None
        self.eps, self.momentum, self.rows, self.by_kernel = norm.eps, norm.momentum, rows, by_kernel

    def forward(self, x: Tensor) -> Tensor:
        running = None
        if self.running_mean is not None and self.running_var is not None:
            running = self.running_mean, self.running_var
        if self.by_kernel and self.weight is not None and x.dtype.itemsize == 2:
            rest = running, self.rows.real, self.eps, self.momentum
            normalised = kernels.batch_norm(x, self.weight, self.bias, *rest)
            if normalised is not None:
                return normalised
        if self.rows.real is None:
            mean, var = running or (None, None)
            return F.batch_norm(x, mean, var, self.weight, self.bias, True, self.momentum, self.eps)
        return self._over(self.rows.real, running, x)

    def _over(self, real: Tensor, running: tuple[Tensor, Tensor] | None, x: Tensor) -> Tensor:
        axes = (0, *range(2, x.dim()))
        shape = (1, -1, *(1,) * (x.dim() - 2))
        kept = (torch.arange(len(x), device=x.device) < real).view(-1, *(1,) * (x.dim() - 1))
        values = x.float() if x.dtype.itemsize < 4 else x
        count = real.to(values.dtype) * (x[0, 0].numel())
        mean = torch.where(kept, values, 0.0).sum(axes) / count
        centred = values - mean.view(shape)
        variance = torch.where(kept, centred, 0.0).square().sum(axes) / count
        if running is not None:
            with torch.no_grad():
                unbiased = variance.detach() * count / (count - 1)
                for before, now in zip(running, (mean.detach(), unbiased), strict=True):
                    before.mul_(1 - self.momentum).add_(self.momentum * now)
        result = centred * (variance + self.eps).rsqrt().view(shape)
        if self.weight is not None:
            result = result * self.weight.view(shape) + self.bias.view(shape)
        return result.to(x.dtype)


def masked(module: nn.Module, rows: Rows, *, by_kernel: bool = False) -> nn.Module:
    """A copy of the module whose BatchNorm layers in train mode look at the real samples only, where not all are.

    by_kernel: in 16 bits with the package's kernels, where PyTorch's own are slow. Not under `torch.func`, which does
    not know them.
    """
    module = copy.deepcopy(module)
    for name, layer in [(name, layer) for name, layer in module.named_modules() if _is_plain(layer)]:
        if not name:
            return MaskedBatchNorm(layer, rows, by_kernel)
        module.set_submodule(name, MaskedBatchNorm(layer, rows, by_kernel))
    return module


def _is_plain(layer: nn.Module) -> bool:
    """BatchNorm as PyTorch has it, in train mode. One with a forward pass of its own, or whose running statistics are
    plain means over all batches, stays as it is."""
    kind = nn.modules.batchnorm._BatchNorm
    itself = isinstance(layer, kind) and type(layer).forward is kind.forward
    return itself and layer.training and layer.momentum is not None
