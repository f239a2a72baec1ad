"""BatchNorm in train mode for any module: three passes over memory forward, three backward, none by atomic additions.

PyTorch's own kernels for bfloat16 in channels-last order took nearly half of a captured step of MobileNetV2. These sum
tile by tile, with many more programs at work, and share all the rest with the networks of `network.py`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from . import tiles
from .fused import Fused
from .launching import kernel
from .pointwise import channels, store_statistics
from .values import Delta, Raw, Statistics, Tracked

TYPES = (torch.float32, torch.bfloat16, torch.float16)


def batch_norm(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    running: tuple[Tensor, Tensor] | None,
    real: Tensor | None,
    eps: float,
    momentum: float,
) -> Tensor | None:
    """See `kernels.batch_norm`."""
    wide = (gamma, beta, *(running or ()))
    if x.dtype not in TYPES or any(t.dtype != torch.float32 or not t.is_contiguous() for t in wide):
        return None
    if x.dim() not in (2, 4) or not x.is_contiguous(memory_format=_order(x)):
        return None
    normalised: Tensor = _BatchNorm.apply(x, gamma, beta, running, real, eps, momentum)
    return normalised


class _BatchNorm(torch.autograd.Function):
    """Padding behind the first `real` samples is normalised like them, counts in no statistic, and has no gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        gamma: Tensor,
        beta: Tensor,
        running: tuple[Tensor, Tensor] | None,
        real: Tensor | None,
        eps: float,
        momentum: float,
    ) -> Tensor:
        y, operations = _rows(x), _operations(x.dtype)
        everyone = _count(len(x), x.device)
        rows = everyone if real is None else real.to(torch.int32).view(1)
        tracked = None if running is None else Tracked(running[0][None], running[1][None], None)
        found = statistics_of(y, rows)
        normal = operations.normalise(found, rows, gamma[None], beta[None], tracked, eps, momentum)
        ctx.save_for_backward(x, normal, rows)
        ctx.padded = real is not None
        return _like(operations.joined(Raw(y, normal), False, None, everyone), x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        x, normal, rows = ctx.saved_tensors
        y, g, operations = _rows(x), _rows(slope.contiguous(memory_format=_order(x))), _operations(x.dtype)
        d_gamma, d_beta = (normal.new_empty(1, x.shape[1]) for _ in range(2))
        unit = Raw(y, normal)
        delta: Delta = operations.moments(sums_of(g, unit, rows), 1, g, unit, rows, (d_gamma, d_beta))
        dx = torch.zeros_like(y) if ctx.padded else torch.empty_like(y)
        operations.output_gradients(delta, rows, dx)
        return _like(dx, x), d_gamma[0], d_beta[0], None, None, None, None


@cache
def _operations(compute: torch.dtype) -> Fused:
    return Fused(compute, tf32=False)  # no products of matrices here


@cache
def _count(samples: int, device: torch.device) -> Tensor:
    """A number as the kernels read it; made once, outside any capture."""
    return torch.tensor([samples], dtype=torch.int32, device=device)


def _order(x: Tensor) -> torch.memory_format:
    return torch.channels_last if x.dim() == 4 else torch.contiguous_format


def _rows(x: Tensor) -> Tensor:
    """The activations as `[1, B, H, W, C]`: one client."""
    return x.permute(0, 2, 3, 1)[None] if x.dim() == 4 else x[None, :, None, None]


def _like(rows: Tensor, x: Tensor) -> Tensor:
    return rows[0].permute(0, 3, 1, 2) if x.dim() == 4 else rows.view(x.shape)


def _dealt(y: Tensor) -> tuple[int, int, int, dict[str, int]]:
    """How the columns of y `[1, B, H, W, C]` are summed: blocks of channels, parts of the rows, rows of a part, and the
    kernels' options."""
    _, samples, height, width, c = y.shape
    tile = tiles.columns(c)
    blocks = triton.cdiv(c, tile.outputs)
    parts, share = tiles.splits(blocks, samples * height * width, tile)
    options = {"PER_SAMPLE": height * width, "C": c, "BM": tile.rows, "BC": tile.outputs, "num_warps": tile.warps}
    return blocks, parts, share, options


def statistics_of(y: Tensor, rows: Tensor) -> Statistics:
    """Means and squared deviations of the tiles of y."""
    blocks, parts, share, options = _dealt(y)
    shapes = (1, parts, 2, options["C"]), (1, parts)
    found = Statistics(*(torch.empty(shape, dtype=torch.float32, device=y.device) for shape in shapes))
    column_statistics[(blocks, parts)](y, *found, rows, share, **options)
    return found


def sums_of(g: Tensor, unit: Raw, rows: Tensor) -> Tensor:
    """Sums of g and of g (y - mean) over tiles, `[1, T, 2, C]`."""
    blocks, parts, share, options = _dealt(g)
    found = torch.empty((1, parts, 2, options["C"]), dtype=torch.float32, device=g.device)
    column_sums[(blocks, parts)](g, *unit, found, rows, share, **options)
    return found


@kernel(plain=("share",))
def column_statistics(
    x,
    partial,
    counts,
    rows,
    share,
    PER_SAMPLE: tl.constexpr,
    C: tl.constexpr,
    BM: tl.constexpr,
    BC: tl.constexpr,
):
    """Mean and squared deviations of a share of the rows, shifted by the first ones' mean against cancellation."""
    split = tl.program_id(1)
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    inside = c < C
    start = split * share
    end = tl.minimum(start + share, tl.load(rows) * PER_SAMPLE)
    m = start + tl.arange(0, BM)
    mask = (m < end)[:, None] & inside[None, :]
    first = tl.load(x + m[:, None].to(tl.int64) * C + c[None, :], mask=mask, other=0.0).to(tl.float32)
    pivot = (tl.sum(first, 0) / tl.minimum(tl.maximum(end - start, 1), BM).to(tl.float32))[None, :]
    total = tl.zeros((BM, BC), tl.float32)
    squares = tl.zeros((BM, BC), tl.float32)
    for row in range(start, end, BM):
        m = row + tl.arange(0, BM)
        mask = (m < end)[:, None] & inside[None, :]
        value = tl.load(x + m[:, None].to(tl.int64) * C + c[None, :], mask=mask, other=0.0).to(tl.float32)
        difference = tl.where(mask, value - pivot, 0.0)
        total += difference
        squares += difference * difference
    store_statistics(partial, counts, split, total, squares, pivot, end - start, c, inside, C)


@kernel(plain=("share",))
def column_sums(
    g,
    y,
    normal,
    partial,
    rows,
    share,
    PER_SAMPLE: tl.constexpr,
    C: tl.constexpr,
    BM: tl.constexpr,
    BC: tl.constexpr,
):
    """Sums of g and of g (y - mean) over a share of the rows."""
    split = tl.program_id(1)
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    inside = c < C
    start = split * share
    end = tl.minimum(start + share, tl.load(rows) * PER_SAMPLE)
    mean = channels(normal + 2 * C, c, inside)
    total = tl.zeros((BM, BC), tl.float32)
    centred = tl.zeros((BM, BC), tl.float32)
    for row in range(start, end, BM):
        m = row + tl.arange(0, BM)
        mask = (m < end)[:, None] & inside[None, :]
        at = m[:, None].to(tl.int64) * C + c[None, :]
        of_g = tl.load(g + at, mask=mask, other=0.0).to(tl.float32)
        of_y = tl.load(y + at, mask=mask, other=0.0).to(tl.float32)
        total += of_g
        centred += of_g * (of_y - mean)
    out = partial + split * (2 * C) + c
    tl.store(out, tl.sum(total, 0), mask=inside)
    tl.store(out + C, tl.sum(centred, 0), mask=inside)
