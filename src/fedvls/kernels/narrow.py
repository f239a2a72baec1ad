"""Triton kernels for the whole backward pass of a 1x1 convolution with few channels on one side.

Gradients of input and weights are taken from one reading of the wide side: the weights' gradient stays in registers
while the program walks over its share of the rows.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .launching import kernel
from .pointwise import channels, output_gradient, through_source


@triton.jit
def piece_of_rows(dy, m, valid, start, OUTPUTS: tl.constexpr, BO: tl.constexpr):
    """BO output channels of the rows at hand, `[BM, BO]`."""
    o = start + tl.arange(0, BO)
    return tl.load(dy + m[:, None] * OUTPUTS + o[None, :], mask=valid & (o < OUTPUTS)[None, :], other=0.0)


@triton.jit
def piece_of(w, i, i_inside, start, INPUTS: tl.constexpr, OUTPUTS: tl.constexpr, BO: tl.constexpr):
    """The weights of BO output channels, `[BO, BI]`."""
    o = start + tl.arange(0, BO)
    return tl.load(w + o[:, None] * INPUTS + i[None, :], mask=(o < OUTPUTS)[:, None] & i_inside[None, :], other=0.0)


@triton.jit
def store_piece(weights, of_weights, i, i_inside, start, INPUTS: tl.constexpr, OUTPUTS: tl.constexpr, BO: tl.constexpr):
    o = start + tl.arange(0, BO)
    tl.store(weights + o[:, None] * INPUTS + i[None, :], of_weights, mask=(o < OUTPUTS)[:, None] & i_inside[None, :])


@kernel(plain=("M", "share"))
def project(
    dy,
    w,
    x,
    normal,
    dx,
    partial,
    weights,
    rows,
    M,
    share,
    PER_SAMPLE: tl.constexpr,
    INPUTS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    PRECISION: tl.constexpr,
    BM: tl.constexpr,
    BI: tl.constexpr,
    BO: tl.constexpr,
    BR: tl.constexpr,
):
    """Many inputs, through BatchNorm and ReLU, to few outputs (at most BO + BR): dx with its sums `[K, S, 2, I]`, and
    dw `[K, S, O, I]` of the split. dy comes ready: it is narrow, and every block of inputs needs all of it."""
    k = tl.program_id(2).to(tl.int64)
    split = tl.program_id(1)
    i = tl.program_id(0) * BI + tl.arange(0, BI)
    i_inside = i < INPUTS
    dtype: tl.constexpr = dx.dtype.element_ty
    x += k * M * INPUTS
    dx += k * M * INPUTS
    dy += k * M * OUTPUTS
    w += k * (OUTPUTS * INPUTS)
    normal += k * (4 * INPUTS)
    scale = channels(normal, i, i_inside)
    shift = channels(normal + INPUTS, i, i_inside)
    mean = channels(normal + 2 * INPUTS, i, i_inside)
    right = piece_of(w, i, i_inside, 0, INPUTS, OUTPUTS, BO)
    of_weights = tl.zeros((BO, BI), tl.float32)
    if OUTPUTS > BO:
        rest = piece_of(w, i, i_inside, BO, INPUTS, OUTPUTS, BR)
        of_rest = tl.zeros((BR, BI), tl.float32)
    start = split * share
    end = tl.minimum(start + share, tl.load(rows + k) * PER_SAMPLE)
    total = tl.zeros((BM, BI), tl.float32)
    centred = tl.zeros((BM, BI), tl.float32)
    for row in range(start, end, BM):
        m = row + tl.arange(0, BM)
        valid = (m < end)[:, None]
        mask = valid & i_inside[None, :]
        at = m[:, None] * INPUTS + i[None, :]
        raw = tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
        left = piece_of_rows(dy, m, valid, 0, OUTPUTS, BO)
        gradient = tl.dot(left, right, input_precision=PRECISION)
        if OUTPUTS > BO:
            left_rest = piece_of_rows(dy, m, valid, BO, OUTPUTS, BR)
            gradient = tl.dot(left_rest, rest, gradient, input_precision=PRECISION)
        z = tl.maximum(raw * scale + shift, 0.0)
        of_weights = tl.dot(tl.trans(left), z.to(dtype), of_weights, input_precision=PRECISION)
        if OUTPUTS > BO:
            of_rest = tl.dot(tl.trans(left_rest), z.to(dtype), of_rest, input_precision=PRECISION)
        gradient = tl.where(z > 0.0, gradient, 0.0)
        tl.store(dx + at, gradient.to(dtype), mask=mask)
        total += gradient
        centred += gradient * (raw - mean)
    place = k * tl.num_programs(1) + split
    tl.store(partial + place * (2 * INPUTS) + i, tl.sum(total, 0), mask=i_inside)
    tl.store(partial + place * (2 * INPUTS) + INPUTS + i, tl.sum(centred, 0), mask=i_inside)
    weights += place * (OUTPUTS * INPUTS)
    store_piece(weights, of_weights, i, i_inside, 0, INPUTS, OUTPUTS, BO)
    if OUTPUTS > BO:
        store_piece(weights, of_rest, i, i_inside, BO, INPUTS, OUTPUTS, BR)


@triton.jit
def expand_piece(
    g,
    y,
    coefficients,
    w,
    left,
    total,
    of_weights,
    m,
    valid,
    i,
    i_inside,
    start,
    INPUTS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    PRECISION: tl.constexpr,
    BO: tl.constexpr,
):
    """What BO output channels from `start` add to the gradients of the rows at hand and of their own weights."""
    o = start + tl.arange(0, BO)
    inside = o < OUTPUTS
    at = m[:, None] * OUTPUTS + o[None, :]
    dy = output_gradient(g, y, coefficients, at, valid & inside[None, :], o, inside, OUTPUTS).to(left.dtype)
    total = tl.dot(dy, piece_of(w, i, i_inside, start, INPUTS, OUTPUTS, BO), total, input_precision=PRECISION)
    of_weights = tl.dot(tl.trans(dy), left, of_weights, input_precision=PRECISION)
    return total, of_weights


@kernel(plain=("M", "share"))
def expand(
    g,
    y,
    coefficients,
    w,
    x,
    dx,
    partial,
    weights,
    rows,
    residual,
    y1,
    normal1,
    y2,
    normal2,
    M,
    share,
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
    BR: tl.constexpr,
):
    """Few inputs (at most BI) to many outputs (at most BO + BR): dx with its sums `[K, S, SUMS, I]`, and dw
    `[K, S, O, I]`."""
    k = tl.program_id(1).to(tl.int64)
    split = tl.program_id(0)
    i = tl.arange(0, BI)
    i_inside = i < INPUTS
    dtype: tl.constexpr = dx.dtype.element_ty
    first = k * M
    g += first * OUTPUTS
    y += first * OUTPUTS
    coefficients += k * (3 * OUTPUTS)
    w += k * (OUTPUTS * INPUTS)
    start = split * share
    end = tl.minimum(start + share, tl.load(rows + k) * PER_SAMPLE)
    of_weights = tl.zeros((BO, BI), tl.float32)
    if OUTPUTS > BO:
        of_rest = tl.zeros((BR, BI), tl.float32)
    plain = tl.zeros((BM, BI), tl.float32)
    centred = tl.zeros((BM, BI), tl.float32)
    also = tl.zeros((BM, BI), tl.float32)
    for row in range(start, end, BM):
        m = row + tl.arange(0, BM)
        valid = (m < end)[:, None]
        mask = valid & i_inside[None, :]
        left = tl.load(x + first * INPUTS + m[:, None] * INPUTS + i[None, :], mask=mask, other=0.0)
        total = tl.zeros((BM, BI), tl.float32)
        total, of_weights = expand_piece(
            g, y, coefficients, w, left, total, of_weights, m, valid, i, i_inside, 0, INPUTS, OUTPUTS, PRECISION, BO
        )
        if OUTPUTS > BO:
            total, of_rest = expand_piece(
                g, y, coefficients, w, left, total, of_rest, m, valid, i, i_inside, BO, INPUTS, OUTPUTS, PRECISION, BR
            )
        total, of_first, of_second = through_source(
            total, first, m, i, mask, i_inside, k, residual, y1, normal1, y2, normal2, INPUTS, RESIDUAL, RELU, SUMS
        )
        tl.store(dx + first * INPUTS + m[:, None] * INPUTS + i[None, :], total.to(dtype), mask=mask)
        if SUMS > 0:
            plain += total
            centred += of_first
        if SUMS > 2:
            also += of_second
    place = k * tl.num_programs(0) + split
    if SUMS > 0:
        out = partial + place * (SUMS * INPUTS) + i
        tl.store(out, tl.sum(plain, 0), mask=i_inside)
        tl.store(out + INPUTS, tl.sum(centred, 0), mask=i_inside)
        if SUMS > 2:
            tl.store(out + 2 * INPUTS, tl.sum(also, 0), mask=i_inside)
    weights += place * (OUTPUTS * INPUTS)
    store_piece(weights, of_weights, i, i_inside, 0, INPUTS, OUTPUTS, BO)
    if OUTPUTS > BO:
        store_piece(weights, of_rest, i, i_inside, BO, INPUTS, OUTPUTS, BR)
