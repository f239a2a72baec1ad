"""Triton kernels of 1x1 convolutions: a matrix product per client over the rows of channels-last activations.

A BatchNorm (and ReLU) in front is applied while the input is read, and the sums that the BatchNorm behind needs are
taken while the output is at hand: a layer reads its input once and writes its output once.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .launching import kernel


@triton.jit
def channels(stored, c, inside):
    """One number per channel, as a row."""
    return tl.load(stored + c, mask=inside, other=0.0)[None, :]


@triton.jit
def activated(raw, normal, c, inside, C: tl.constexpr):
    """relu(scale * raw + shift) in float32; `normal` points at the client's `[4, C]`."""
    z = raw.to(tl.float32) * channels(normal, c, inside) + channels(normal + C, c, inside)
    return tl.maximum(z, 0.0)


@triton.jit
def output_gradient(g, y, coefficients, offsets, mask, c, inside, C: tl.constexpr):
    """dy = c0 g + c1 y + c2, zero outside the mask: the gradient of a convolution's output, through its BatchNorm."""
    c0 = channels(coefficients, c, inside)
    c1 = channels(coefficients + C, c, inside)
    c2 = channels(coefficients + 2 * C, c, inside)
    of_g = tl.load(g + offsets, mask=mask, other=0.0).to(tl.float32)
    of_y = tl.load(y + offsets, mask=mask, other=0.0).to(tl.float32)
    return tl.where(mask, c0 * of_g + (c1 * of_y + c2), 0.0)


@triton.jit
def store_statistics(partial, counts, number, total, squares, pivot, rows, c, inside, C: tl.constexpr):
    """Mean and squared deviations of tile `number`, from the sums of differences to a pivot per channel."""
    count = tl.maximum(rows, 0).to(tl.float32)
    some = tl.maximum(count, 1.0)
    summed = tl.sum(total, 0)
    out = partial + number * (2 * C) + c
    tl.store(out, tl.sum(pivot, 0) + summed / some, mask=inside)
    tl.store(out + C, tl.maximum(tl.sum(squares, 0) - summed * summed / some, 0.0), mask=inside)
    tl.store(counts + number, count)


@kernel(plain=("M",))
def forward(
    x,
    w,
    normal,
    y,
    partial,
    counts,
    rows,
    bias,
    residual,
    M,
    PER_SAMPLE: tl.constexpr,
    INPUTS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    NORMAL: tl.constexpr,
    STATISTICS: tl.constexpr,
    BIAS: tl.constexpr,
    RESIDUAL: tl.constexpr,
    RELU: tl.constexpr,
    PRECISION: tl.constexpr,
    BM: tl.constexpr,
    BI: tl.constexpr,
    BO: tl.constexpr,
):
    """y = x w' (+ bias) (+ residual); with STATISTICS, mean and squared deviations of each tile `[K, T, 2, O]`."""
    o_tiles: tl.constexpr = (OUTPUTS + BO - 1) // BO
    k = tl.program_id(1).to(tl.int64)
    tile = tl.program_id(0) // o_tiles
    o = tl.program_id(0) % o_tiles * BO + tl.arange(0, BO)
    o_inside = o < OUTPUTS
    m = tl.arange(0, BM)
    first = k * M + tile.to(tl.int64) * BM
    real = tl.load(rows + k) * PER_SAMPLE - tile * BM
    valid = (m < real)[:, None]
    x += first * INPUTS
    w += k * (OUTPUTS * INPUTS)
    normal += k * (4 * INPUTS)

    total = tl.zeros((BM, BO), tl.float32)
    for start in range(0, INPUTS, BI):
        i = start + tl.arange(0, BI)
        i_inside = i < INPUTS
        left = tl.load(x + m[:, None] * INPUTS + i[None, :], mask=valid & i_inside[None, :], other=0.0)
        if NORMAL:
            left = activated(left, normal, i, i_inside, INPUTS).to(x.dtype.element_ty)
        right = tl.load(w + o[:, None] * INPUTS + i[None, :], mask=o_inside[:, None] & i_inside[None, :], other=0.0)
        total = tl.dot(left, tl.trans(right), total, input_precision=PRECISION)

    mask = valid & o_inside[None, :]
    offsets = m[:, None] * OUTPUTS + o[None, :]
    if BIAS:
        total += channels(bias, o, o_inside)
    if RESIDUAL:
        total += tl.load(residual + first * OUTPUTS + offsets, mask=mask, other=0.0).to(tl.float32)
    if RELU:
        total = tl.maximum(total, 0.0)
    written = total.to(y.dtype.element_ty)
    tl.store(y + first * OUTPUTS + offsets, written, mask=mask)
    if STATISTICS:
        count = tl.minimum(tl.maximum(real, 0), BM).to(tl.float32)
        value = tl.where(valid, written.to(tl.float32), 0.0)
        mean = tl.sum(value, 0) / tl.maximum(count, 1.0)
        deviation = tl.where(valid, value - mean[None, :], 0.0)
        number = k * ((M + BM - 1) // BM) + tile
        out = partial + number * (2 * OUTPUTS) + o
        tl.store(out, mean, mask=o_inside)
        tl.store(out + OUTPUTS, tl.sum(deviation * deviation, 0), mask=o_inside)
        tl.store(counts + number, count)


@kernel(plain=("M", "share"))
def widen(
    x,
    w,
    y,
    partial,
    counts,
    rows,
    bias,
    M,
    share,
    PER_SAMPLE: tl.constexpr,
    INPUTS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    STATISTICS: tl.constexpr,
    BIAS: tl.constexpr,
    RELU: tl.constexpr,
    PRECISION: tl.constexpr,
    BM: tl.constexpr,
    BI: tl.constexpr,
    BO: tl.constexpr,
):
    """`forward` for few inputs (at most BI), as they are: the weights stay in place while a program walks over its
    rows, and its statistics, shifted by the mean of the first ones, are those of the whole share."""
    k = tl.program_id(2).to(tl.int64)
    split = tl.program_id(1)
    o = tl.program_id(0) * BO + tl.arange(0, BO)
    i = tl.arange(0, BI)
    o_inside = o < OUTPUTS
    i_inside = (i < INPUTS)[None, :]
    dtype: tl.constexpr = y.dtype.element_ty
    x += k * M * INPUTS
    y += k * M * OUTPUTS
    right = tl.trans(
        tl.load(
            w + k * (OUTPUTS * INPUTS) + o[:, None] * INPUTS + i[None, :], mask=o_inside[:, None] & i_inside, other=0.0
        )
    )
    start = split * share
    end = tl.minimum(start + share, tl.load(rows + k) * PER_SAMPLE)
    total = tl.zeros((BM, BO), tl.float32)
    squares = tl.zeros((BM, BO), tl.float32)
    pivot = tl.zeros((1, BO), tl.float32)
    if STATISTICS:
        m = start + tl.arange(0, BM)
        left = tl.load(x + m[:, None] * INPUTS + i[None, :], mask=(m < end)[:, None] & i_inside, other=0.0)
        value = tl.dot(left, right, input_precision=PRECISION)
        pivot = (tl.sum(value, 0) / tl.minimum(tl.maximum(end - start, 1), BM).to(tl.float32))[None, :]
    for row in range(start, end, BM):
        m = row + tl.arange(0, BM)
        valid = (m < end)[:, None]
        left = tl.load(x + m[:, None] * INPUTS + i[None, :], mask=valid & i_inside, other=0.0)
        value = tl.dot(left, right, input_precision=PRECISION)
        if BIAS:
            value += channels(bias, o, o_inside)
        if RELU:
            value = tl.maximum(value, 0.0)
        written = value.to(dtype)
        tl.store(y + m[:, None] * OUTPUTS + o[None, :], written, mask=valid & o_inside[None, :])
        if STATISTICS:
            difference = tl.where(valid, written.to(tl.float32) - pivot, 0.0)
            total += difference
            squares += difference * difference
    if STATISTICS:
        number = k * tl.num_programs(1) + split
        store_statistics(partial, counts, number, total, squares, pivot, end - start, o, o_inside, OUTPUTS)


@triton.jit
def through_source(
    gradient,
    first,
    m,
    c,
    mask,
    inside,
    k,
    residual,
    y1,
    normal1,
    y2,
    normal2,
    C: tl.constexpr,
    RESIDUAL: tl.constexpr,
    RELU: tl.constexpr,
    SUMS: tl.constexpr,
):
    """A gradient on its way to the units that made this input: other paths added, ReLU's mask applied; beside it the
    values whose column sums BatchNorm's backward needs."""
    offsets = m[:, None] * C + c[None, :]
    if RESIDUAL:
        gradient += tl.load(residual + first * C + offsets, mask=mask, other=0.0).to(tl.float32)
    centred = gradient
    also = gradient
    if SUMS > 1 or RELU:
        raw = tl.load(y1 + first * C + offsets, mask=mask, other=0.0).to(tl.float32)
        normal1 += k * (4 * C)
        if RELU:
            z = raw * channels(normal1, c, inside) + channels(normal1 + C, c, inside)
            gradient = tl.where(z > 0.0, gradient, 0.0)
        centred = gradient * (raw - channels(normal1 + 2 * C, c, inside))
    if SUMS > 2:
        raw = tl.load(y2 + first * C + offsets, mask=mask, other=0.0).to(tl.float32)
        also = gradient * (raw - channels(normal2 + k * (4 * C) + 2 * C, c, inside))
    return gradient, centred, also


@kernel(plain=("M",))
def input_gradient(
    g,
    y,
    coefficients,
    w,
    dx,
    partial,
    rows,
    residual,
    y1,
    normal1,
    y2,
    normal2,
    M,
    PER_SAMPLE: tl.constexpr,
    INPUTS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    RESIDUAL: tl.constexpr,
    RELU: tl.constexpr,
    SUMS: tl.constexpr,
    PRECISION: tl.constexpr,
    BM: tl.constexpr,
    BI: tl.constexpr,
    BO: tl.constexpr,
):
    """dx = dy w (+ residual), masked by the ReLU of the unit that made x, and the tile's sums `[K, T, SUMS, I]`."""
    i_tiles: tl.constexpr = (INPUTS + BI - 1) // BI
    k = tl.program_id(1).to(tl.int64)
    tile = tl.program_id(0) // i_tiles
    i = tl.program_id(0) % i_tiles * BI + tl.arange(0, BI)
    i_inside = i < INPUTS
    m = tl.arange(0, BM)
    first = k * M + tile.to(tl.int64) * BM
    valid = (m < tl.load(rows + k) * PER_SAMPLE - tile * BM)[:, None]
    dtype: tl.constexpr = dx.dtype.element_ty

    total = tl.zeros((BM, BI), tl.float32)
    for start in range(0, OUTPUTS, BO):
        o = start + tl.arange(0, BO)
        inside = o < OUTPUTS
        dy = output_gradient(
            g + first * OUTPUTS,
            y + first * OUTPUTS,
            coefficients + k * (3 * OUTPUTS),
            m[:, None] * OUTPUTS + o[None, :],
            valid & inside[None, :],
            o,
            inside,
            OUTPUTS,
        ).to(dtype)
        right = tl.load(
            w + k * (OUTPUTS * INPUTS) + o[:, None] * INPUTS + i[None, :],
            mask=inside[:, None] & i_inside[None, :],
            other=0.0,
        )
        total = tl.dot(dy, right, total, input_precision=PRECISION)

    mask = valid & i_inside[None, :]
    total, centred, also = through_source(
        total, first, m, i, mask, i_inside, k, residual, y1, normal1, y2, normal2, INPUTS, RESIDUAL, RELU, SUMS
    )
    tl.store(dx + first * INPUTS + m[:, None] * INPUTS + i[None, :], total.to(dtype), mask=mask)
    if SUMS > 0:
        tiles = (M + BM - 1) // BM
        out = partial + (k * tiles + tile) * (SUMS * INPUTS) + i
        tl.store(out, tl.sum(total, 0), mask=i_inside)
        tl.store(out + INPUTS, tl.sum(centred, 0), mask=i_inside)
        if SUMS > 2:
            tl.store(out + 2 * INPUTS, tl.sum(also, 0), mask=i_inside)


@kernel(unaligned=("out",), plain=("out_stride", "M", "share"))
def weight_gradient(
    g,
    y,
    coefficients,
    x,
    normal,
    out,
    out_stride,
    rows,
    M,
    share,
    PER_SAMPLE: tl.constexpr,
    INPUTS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    NORMAL: tl.constexpr,
    PRECISION: tl.constexpr,
    BM: tl.constexpr,
    BI: tl.constexpr,
    BO: tl.constexpr,
):
    """dw = dy' x over this split's `share` rows, `[K, S, O, I]`; clients lie `out_stride` apart."""
    i_tiles: tl.constexpr = (INPUTS + BI - 1) // BI
    k = tl.program_id(2).to(tl.int64)
    split = tl.program_id(1)
    o = tl.program_id(0) // i_tiles * BO + tl.arange(0, BO)
    i = tl.program_id(0) % i_tiles * BI + tl.arange(0, BI)
    o_inside = o < OUTPUTS
    i_inside = i < INPUTS
    start = split * share
    end = tl.minimum(start + share, tl.load(rows + k) * PER_SAMPLE)
    dtype: tl.constexpr = x.dtype.element_ty
    first = k * M

    total = tl.zeros((BO, BI), tl.float32)
    for row in range(start, end, BM):
        m = row + tl.arange(0, BM)
        valid = (m < end)[:, None]
        dy = output_gradient(
            g + first * OUTPUTS,
            y + first * OUTPUTS,
            coefficients + k * (3 * OUTPUTS),
            m[:, None] * OUTPUTS + o[None, :],
            valid & o_inside[None, :],
            o,
            o_inside,
            OUTPUTS,
        ).to(dtype)
        right = tl.load(
            x + first * INPUTS + m[:, None] * INPUTS + i[None, :], mask=valid & i_inside[None, :], other=0.0
        )
        if NORMAL:
            right = activated(right, normal + k * (4 * INPUTS), i, i_inside, INPUTS).to(dtype)
        total = tl.dot(tl.trans(dy), right, total, input_precision=PRECISION)
    out += k * out_stride + split * (OUTPUTS * INPUTS)
    tl.store(out + o[:, None] * INPUTS + i[None, :], total, mask=o_inside[:, None] & i_inside[None, :])
