"""Triton kernels that turn sums taken tile by tile into BatchNorm's statistics and gradients.

Every tile of a producing kernel leaves its own sums, and one program adds them in a fixed order: no atomic additions,
hence the same bits every time. Statistics of outputs are taken of the numbers as written, rounded to the compute type:
those are what BatchNorm normalises.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .launching import kernel


@kernel(
    unaligned=("gamma", "beta", "running_mean", "running_var", "batches"),
    plain=("tiles", "gamma_stride", "beta_stride", "mean_stride", "var_stride", "batches_stride"),
)
def normalise(
    partial,
    counts,
    rows,
    gamma,
    beta,
    running_mean,
    running_var,
    batches,
    normal,
    tiles,
    gamma_stride,
    beta_stride,
    mean_stride,
    var_stride,
    batches_stride,
    eps,
    momentum,
    C: tl.constexpr,
    TRACK: tl.constexpr,
    COUNT: tl.constexpr,
    ONCE: tl.constexpr,
    BT: tl.constexpr,
    BC: tl.constexpr,
):
    """Mean and squared deviations per tile `[K, T, 2, C]` to scale, shift, mean and inverse deviation `[K, 4, C]`.

    Chan's formula: M2 = sum_t M2_t + n_t (mean_t - mean)^2, where tile t holds n_t real positions: `counts` `[K, T]`.
    ONCE: all tiles in one block. TRACK: running statistics move, and with COUNT the number of batches seen.
    """
    k = tl.program_id(1).to(tl.int64)
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    inside = c < C
    base = partial + k * tiles * (2 * C) + c[None, :]
    counts += k * tiles
    # All that does not depend on the sums is read first: such a small kernel takes as long as it waits for memory.
    gamma_c = tl.load(gamma + k * gamma_stride + c, mask=inside, other=0.0)
    beta_c = tl.load(beta + k * beta_stride + c, mask=inside, other=0.0)
    if TRACK:
        samples = tl.load(rows + k)
        at_mean = running_mean + k * mean_stride + c
        at_var = running_var + k * var_stride + c
        old_mean = tl.load(at_mean, mask=inside, other=0.0)
        old_var = tl.load(at_var, mask=inside, other=0.0)
        if COUNT:
            seen = tl.load(batches + k * batches_stride)

    if ONCE:
        t = tl.arange(0, BT)
        there = (t < tiles)[:, None] & inside[None, :]
        count = tl.load(counts + t, mask=t < tiles, other=0.0)
        means = tl.load(base + t[:, None] * (2 * C), mask=there, other=0.0)
        within = tl.load(base + t[:, None] * (2 * C) + C, mask=there, other=0.0)
        total = tl.maximum(tl.sum(count, 0), 1.0)
        mean = tl.sum(means * count[:, None], 0) / total
        deviation = means - mean[None, :]
        squared = tl.sum(within + deviation * deviation * count[:, None], 0)
    else:
        summed = tl.zeros((BT, BC), tl.float32)
        total = tl.zeros((BT,), tl.float32)
        for first in range(0, tiles, BT):
            t = first + tl.arange(0, BT)
            there = (t < tiles)[:, None] & inside[None, :]
            count = tl.load(counts + t, mask=t < tiles, other=0.0)
            summed += tl.load(base + t[:, None] * (2 * C), mask=there, other=0.0) * count[:, None]
            total += count
        total = tl.maximum(tl.sum(total, 0), 1.0)
        mean = tl.sum(summed, 0) / total
        squares = tl.zeros((BT, BC), tl.float32)
        for first in range(0, tiles, BT):
            t = first + tl.arange(0, BT)
            there = (t < tiles)[:, None] & inside[None, :]
            count = tl.load(counts + t, mask=t < tiles, other=0.0)
            deviation = tl.load(base + t[:, None] * (2 * C), mask=there, other=0.0) - mean[None, :]
            within = tl.load(base + t[:, None] * (2 * C) + C, mask=there, other=0.0)
            squares += within + deviation * deviation * count[:, None]
        squared = tl.sum(squares, 0)

    rstd = 1.0 / tl.sqrt(squared / total + eps)
    scale = gamma_c * rstd
    shift = beta_c - mean * scale
    out = normal + k * (4 * C) + c
    tl.store(out, scale, mask=inside)
    tl.store(out + C, shift, mask=inside)
    tl.store(out + 2 * C, mean, mask=inside)
    tl.store(out + 3 * C, rstd, mask=inside)
    if TRACK:
        moved = c < tl.where(samples > 0, C, 0)
        unbiased = squared / tl.maximum(total - 1.0, 1.0)
        tl.store(at_mean, (1.0 - momentum) * old_mean + momentum * mean, mask=moved)
        tl.store(at_var, (1.0 - momentum) * old_var + momentum * unbiased, mask=moved)
        if COUNT and tl.program_id(0) == 0:
            tl.store(batches + k * batches_stride, seen + (samples > 0).to(tl.int64))


@triton.jit
def gradient_through(
    block,
    partial,
    rows,
    normal,
    coefficients,
    d_gamma,
    d_beta,
    tiles,
    d_gamma_stride,
    d_beta_stride,
    POSITIONS: tl.constexpr,
    SUMS: tl.constexpr,
    WHICH: tl.constexpr,
    C: tl.constexpr,
    BT: tl.constexpr,
    BC: tl.constexpr,
):
    """Sums of g and g (y - mean) to the gradients of gamma and beta, and to the three numbers per channel with
    dy = c0 g + c1 y + c2 = scale (g - mean(g) - xhat mean(g xhat))."""
    k = tl.program_id(1).to(tl.int64)
    c = block * BC + tl.arange(0, BC)
    inside = c < C
    plain = tl.zeros((BT, BC), tl.float32)
    centred = tl.zeros((BT, BC), tl.float32)
    base = partial + k * tiles * (SUMS * C) + c[None, :]
    stored = normal + k * (4 * C) + c
    scale = tl.load(stored, mask=inside, other=0.0)
    mean = tl.load(stored + 2 * C, mask=inside, other=0.0)
    rstd = tl.load(stored + 3 * C, mask=inside, other=0.0)
    total = tl.maximum(tl.load(rows + k) * POSITIONS, 1).to(tl.float32)
    for first in range(0, tiles, BT):
        t = first + tl.arange(0, BT)
        there = (t < tiles)[:, None] & inside[None, :]
        plain += tl.load(base + t[:, None] * (SUMS * C), mask=there, other=0.0)
        centred += tl.load(base + t[:, None] * (SUMS * C) + WHICH * C, mask=there, other=0.0)
    of_beta = tl.sum(plain, 0)
    of_gamma = tl.sum(centred, 0) * rstd
    slope = -scale * rstd * of_gamma / total
    out = coefficients + k * (3 * C) + c
    tl.store(out, scale, mask=inside)
    tl.store(out + C, slope, mask=inside)
    tl.store(out + 2 * C, -scale * of_beta / total - slope * mean, mask=inside)
    tl.store(d_gamma + k * d_gamma_stride + c, of_gamma, mask=inside)
    tl.store(d_beta + k * d_beta_stride + c, of_beta, mask=inside)


@triton.jit
def gradient_of_parts(
    block,
    parts,
    into,
    into_stride,
    splits,
    SIZE: tl.constexpr,
    ROW: tl.constexpr,
    KEPT: tl.constexpr,
    BS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Weight gradients of the row splits `[K, S, SIZE]` added into the parameter's own gradient: of every ROW columns
    the first KEPT."""
    k = tl.program_id(1).to(tl.int64)
    e = block * BLOCK + tl.arange(0, BLOCK)
    inside = e < SIZE // ROW * KEPT
    source = parts + k * splits * SIZE + (e // KEPT * ROW + e % KEPT)[None, :]
    total = tl.zeros((BS, BLOCK), tl.float32)
    for first in range(0, splits, BS):
        s = first + tl.arange(0, BS)
        total += tl.load(source + s[:, None] * SIZE, mask=(s < splits)[:, None] & inside[None, :], other=0.0)
    tl.store(into + k * into_stride + e, tl.sum(total, 0), mask=inside)


@kernel(
    unaligned=("d_gamma", "d_beta", "into"),
    plain=("tiles", "d_gamma_stride", "d_beta_stride", "into_stride", "splits"),
)
def moments(
    partial,
    rows,
    normal,
    coefficients,
    d_gamma,
    d_beta,
    tiles,
    d_gamma_stride,
    d_beta_stride,
    parts,
    into,
    into_stride,
    splits,
    POSITIONS: tl.constexpr,
    SUMS: tl.constexpr,
    WHICH: tl.constexpr,
    C: tl.constexpr,
    BT: tl.constexpr,
    BC: tl.constexpr,
    SIZE: tl.constexpr,
    ROW: tl.constexpr,
    KEPT: tl.constexpr,
    BS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The gradient through a BatchNorm, and with SIZE > 0 the weights' gradient that the layer behind it left in parts:
    neither fills the device, and one launch costs as much time as two."""
    blocks: tl.constexpr = (C + BC - 1) // BC
    program = tl.program_id(0)
    if program < blocks:
        gradient_through(
            program, partial, rows, normal, coefficients, d_gamma, d_beta, tiles, d_gamma_stride, d_beta_stride,
            POSITIONS, SUMS, WHICH, C, BT, BC,
        )  # fmt: skip
    elif SIZE > 0:
        gradient_of_parts(program - blocks, parts, into, into_stride, splits, SIZE, ROW, KEPT, BS, BLOCK)


@kernel(unaligned=("into",), plain=("into_stride", "splits"))
def summed(
    parts,
    into,
    into_stride,
    splits,
    SIZE: tl.constexpr,
    ROW: tl.constexpr,
    KEPT: tl.constexpr,
    BS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The weights' gradient alone."""
    gradient_of_parts(tl.program_id(0), parts, into, into_stride, splits, SIZE, ROW, KEPT, BS, BLOCK)
