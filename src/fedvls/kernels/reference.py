"""The operations in plain PyTorch, in any floating type: what the Triton kernels are tested against, and what runs
where Triton is missing."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from .values import Delta, Parts, Raw, Source, Statistics, Tensors, Tracked


class Reference:
    """`Operations` in the given type; accumulation in float32 or better."""

    def __init__(self, compute: torch.dtype) -> None:
        self.compute = compute
        self.wide = torch.promote_types(compute, torch.float32)

    def rehearse(self, run: Callable[[], object]) -> None:
        """There is nothing to prepare."""

    def weights(self, params: Tensors, columns: dict[str, int]) -> Tensors:
        return {name: self._flat(params[name].to(self.compute), width) for name, width in columns.items()}

    @staticmethod
    def _flat(w: Tensor, columns: int) -> Tensor:
        flat = w.reshape(w.shape[0], w.shape[1], -1)
        return F.pad(flat, (0, columns - flat.shape[-1]))

    def patches(self, x: Tensor, columns: int, rows: Tensor) -> Tensor:
        clients, batch, _, height, width = x.shape
        unfolded = F.unfold(x.flatten(0, 1).to(self.compute), 3, padding=1).transpose(1, 2)
        padded = F.pad(unfolded, (0, columns - unfolded.shape[-1]))
        return self._cleared(padded.reshape(clients, batch, height, width, columns), rows)

    def pointwise(self, x: Tensor, w: Tensor, normal: Tensor | None, rows: Tensor) -> tuple[Tensor, Statistics]:
        z = x if normal is None else self._activated(Raw(x, normal))
        y = torch.einsum("kbhwi,koi->kbhwo", z, w)
        return y, self._statistics(y, rows)

    def depthwise(self, x: Tensor, w: Tensor, normal: Tensor, stride: int, rows: Tensor) -> tuple[Tensor, Statistics]:
        y = self._filtered(self._activated(Raw(x, normal)), w, stride)
        return y, self._statistics(y, rows)

    def normalise(
        self,
        statistics: Statistics,
        rows: Tensor,
        gamma: Tensor,
        beta: Tensor,
        tracked: Tracked | None,
        eps: float,
        momentum: float,
    ) -> Tensor:
        counts = statistics.counts[..., None]
        means, within = (torch.where(counts > 0, part, 0.0) for part in statistics.values.unbind(2))
        total = counts.sum(1).clamp(min=1)
        mean = (means * counts).sum(1) / total
        squares = (within + counts * (means - mean[:, None]) ** 2).sum(1)
        rstd = (squares / total + eps).rsqrt()
        scale = gamma * rstd
        if tracked is not None:
            real = rows[:, None] > 0
            unbiased = squares / (total - 1).clamp(min=1)
            for running, now in ((tracked.mean, mean), (tracked.var, unbiased)):
                running.copy_(torch.where(real, (1 - momentum) * running + momentum * now, running))
            if tracked.batches is not None:
                tracked.batches.add_(rows > 0)
        return torch.stack((scale, beta - mean * scale, mean, rstd), 1)

    def joined(self, unit: Raw, relu: bool, shortcut: Tensor | Raw | None, rows: Tensor) -> Tensor:
        value = self._affine(unit)
        if relu:
            value = value.relu()
        if isinstance(shortcut, Raw):
            value = value + self._affine(shortcut)
        elif shortcut is not None:
            value = value + shortcut
        return value.to(self.compute)

    def pooled(self, unit: Raw, rows: Tensor) -> Tensor:
        return self._cleared(self._affine(unit).relu().mean((2, 3)), rows)

    def pooled_backward(self, d_features: Tensor, unit: Raw, rows: Tensor) -> tuple[Tensor, Tensor]:
        positions = unit.y.shape[2] * unit.y.shape[3]
        spread = self._cleared(d_features, rows)[:, :, None, None] / positions
        g = torch.where(self._affine(unit) > 0, spread, 0.0).to(self.compute)
        return g, self._sums(g, (unit,), rows)

    def moments(
        self,
        sums: Tensor,
        which: int,
        g: Tensor,
        unit: Raw,
        rows: Tensor,
        into: tuple[Tensor, Tensor],
        left: Parts | None = None,
    ) -> Delta:
        if left is not None:
            self.summed(left)
        scale, _, mean, rstd = unit.normal.unbind(1)
        total = (rows[:, None] * (g.shape[2] * g.shape[3])).clamp(min=1)
        of_beta = sums[:, :, 0].sum(1)
        of_gamma = sums[:, :, which].sum(1) * rstd
        slope = -scale * rstd * of_gamma / total
        into[0].copy_(of_gamma)
        into[1].copy_(of_beta)
        return Delta(g, unit.y, torch.stack((scale, slope, -scale * of_beta / total - slope * mean), 1))

    def summed(self, left: Parts) -> None:
        values, into = left
        into.copy_(values.sum(1)[..., : into[0, 0].numel()].reshape(into.shape))

    def pointwise_backward(
        self, delta: Delta, w: Tensor, source: Source, rows: Tensor, into: Tensor, residual: Tensor | None, wanted: bool
    ) -> tuple[Tensor, Tensor, Parts | None]:
        dy = self._output_gradient(delta, rows)
        z = source.x if source.normal is None else self._activated(Raw(source.x, source.normal))
        gradient = torch.einsum("kbhwo,kbhwi->koi", dy.to(self.wide), self._cleared(z, rows).to(self.wide))
        into.copy_(gradient[..., : into[0, 0].numel()].reshape(into.shape))
        if not wanted:
            return dy, dy, None
        dx = torch.einsum("kbhwo,koi->kbhwi", dy, w)
        if residual is not None:
            dx = dx + self._cleared(residual, rows)
        if source.relu:
            dx = torch.where(self._affine(source.made_by[0]) > 0, dx, 0.0)
        return dx, self._sums(dx, source.made_by, rows), None

    def depthwise_backward(
        self, delta: Delta, w: Tensor, source: Raw, stride: int, rows: Tensor, into: Tensor
    ) -> tuple[Tensor, Tensor, Parts | None]:
        dy = self._output_gradient(delta, rows)
        z = self._cleared(self._activated(source), rows).requires_grad_()
        filters = w.detach().clone().requires_grad_()
        with torch.enable_grad():
            dx, dw = torch.autograd.grad(self._filtered(z, filters, stride), (z, filters), dy)
        into.copy_(dw.reshape(into.shape))
        dx = torch.where(self._affine(source) > 0, dx, 0.0)
        return dx, self._sums(dx, (source,), rows), None

    @staticmethod
    def _filtered(z: Tensor, w: Tensor, stride: int) -> Tensor:
        clients, batch, height, width, channels = z.shape
        images = z.permute(1, 0, 4, 2, 3).reshape(batch, clients * channels, height, width)
        out = F.conv2d(images, w.reshape(-1, 1, 3, 3), stride=stride, padding=1, groups=clients * channels)
        return out.reshape(batch, clients, channels, *out.shape[2:]).permute(1, 0, 3, 4, 2).contiguous()

    @staticmethod
    def _cleared(x: Tensor, rows: Tensor) -> Tensor:
        """x with its padding set to zero."""
        real = torch.arange(x.shape[1], device=x.device) < rows[:, None]
        return torch.where(real.reshape(*real.shape, *(1,) * (x.dim() - 2)), x, 0.0)

    def _affine(self, unit: Raw) -> Tensor:
        scale, shift = unit.normal[:, :2, None, None, None].unbind(1)
        return unit.y.to(self.wide) * scale + shift

    def _activated(self, unit: Raw) -> Tensor:
        return self._affine(unit).relu().to(self.compute)

    def _statistics(self, y: Tensor, rows: Tensor) -> Statistics:
        counts = rows[:, None].to(self.wide) * (y.shape[2] * y.shape[3])
        wide = self._cleared(y.to(self.wide), rows)
        mean = wide.sum((1, 2, 3)) / counts.clamp(min=1)
        deviation = self._cleared(wide - mean[:, None, None, None], rows)
        return Statistics(torch.stack((mean, (deviation**2).sum((1, 2, 3))), 1)[:, None], counts)

    def _sums(self, g: Tensor, made_by: tuple[Raw, ...], rows: Tensor) -> Tensor:
        wide = g.to(self.wide)
        means = [unit.normal[:, 2, None, None, None] for unit in made_by]
        outputs = [self._cleared(unit.y.to(self.wide), rows) for unit in made_by]
        centred = [wide * (y - mean) for y, mean in zip(outputs, means, strict=True)]
        return torch.stack([part.sum((1, 2, 3)) for part in (wide, *centred)], 1)[:, None]

    def _output_gradient(self, delta: Delta, rows: Tensor) -> Tensor:
        c0, c1, c2 = delta.coefficients[:, :, None, None, None].unbind(1)
        dy = c0 * delta.g.to(self.wide) + c1 * delta.y.to(self.wide) + c2
        return self._cleared(dy, rows).to(self.compute)
