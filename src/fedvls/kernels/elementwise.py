"""Triton kernels around the convolutions: patches for the first layer, block outputs, the global average, packing."""

from __future__ import annotations

import triton.language as tl

from .launching import kernel
from .pointwise import activated, channels, output_gradient


@kernel(unaligned=("source",), plain=("stride", "clients"))
def pack(source, target, table, stride, clients, BLOCK: tl.constexpr):
    """Weights of all layers, scattered in the matrix of all parameters, to aligned places and the compute type.

    table: per program where it reads in a client's row; the layer's place and size among the packed weights of one
    client; where it writes in the layer, and how many numbers.
    """
    k = tl.program_id(1).to(tl.int64)
    row = table + tl.program_id(0) * 5
    e = tl.arange(0, BLOCK)
    mask = e < tl.load(row + 4)
    value = tl.load(source + k * stride + tl.load(row) + e, mask=mask)
    at = tl.load(row + 1).to(tl.int64) * clients + k * tl.load(row + 2) + tl.load(row + 3) + e
    tl.store(target + at, value.to(target.dtype.element_ty), mask=mask)


@kernel(plain=("B",))
def patches(
    x,
    out,
    rows,
    B,
    H: tl.constexpr,
    W: tl.constexpr,
    C: tl.constexpr,
    COLUMNS: tl.constexpr,
    BM: tl.constexpr,
    BC: tl.constexpr,
):
    """3x3 neighbourhoods (padding 1) of images `[K, B, C, H, W]` as rows of COLUMNS >= 9 C numbers, zero beyond 9 C."""
    k = tl.program_id(1).to(tl.int64)
    first = tl.program_id(0).to(tl.int64) * BM
    m = first + tl.arange(0, BM)
    sample = m // (H * W)
    row = (m // W % H).to(tl.int32)
    column = (m % W).to(tl.int32)
    j = tl.arange(0, BC)
    down = row[:, None] + j[None, :] % 9 // 3 - 1
    across = column[:, None] + j[None, :] % 3 - 1
    valid = (sample < tl.load(rows + k))[:, None] & (j < COLUMNS)[None, :]
    seen = valid & (j < 9 * C)[None, :] & (down >= 0) & (down < H) & (across >= 0) & (across < W)
    at = (k * B + sample)[:, None] * (C * H * W) + (j // 9)[None, :] * (H * W) + down * W + across
    value = tl.load(x + at, mask=seen, other=0.0).to(out.dtype.element_ty)
    tl.store(out + (k * B * (H * W) + m)[:, None] * COLUMNS + j[None, :], value, mask=valid)


@kernel(plain=("M",))
def joined(
    y,
    normal,
    shortcut,
    shortcut_normal,
    out,
    rows,
    M,
    PER_SAMPLE: tl.constexpr,
    C: tl.constexpr,
    RELU: tl.constexpr,
    SHORTCUT: tl.constexpr,
    BM: tl.constexpr,
    BC: tl.constexpr,
):
    """A block's output: normalised y, plus the shortcut (0 none, 1 as it is, 2 normalised)."""
    k = tl.program_id(1).to(tl.int64)
    tile = tl.program_id(0)
    m = tl.arange(0, BM)
    valid = m < tl.load(rows + k) * PER_SAMPLE - tile * BM
    first = k * M + tile.to(tl.int64) * BM
    normal += k * (4 * C)
    for start in range(0, C, BC):
        c = start + tl.arange(0, BC)
        inside = c < C
        mask = valid[:, None] & inside[None, :]
        at = first * C + m[:, None] * C + c[None, :]
        raw = tl.load(y + at, mask=mask, other=0.0)
        if RELU:
            value = activated(raw, normal, c, inside, C)
        else:
            value = raw.to(tl.float32) * channels(normal, c, inside) + channels(normal + C, c, inside)
        if SHORTCUT == 1:
            value += tl.load(shortcut + at, mask=mask, other=0.0).to(tl.float32)
        if SHORTCUT == 2:
            other = tl.load(shortcut + at, mask=mask, other=0.0).to(tl.float32)
            of_shortcut = shortcut_normal + k * (4 * C)
            value += other * channels(of_shortcut, c, inside) + channels(of_shortcut + C, c, inside)
        tl.store(out + at, value.to(out.dtype.element_ty), mask=mask)


@kernel(plain=("M",))
def output_gradients(
    g,
    y,
    coefficients,
    dy,
    rows,
    M,
    PER_SAMPLE: tl.constexpr,
    C: tl.constexpr,
    BM: tl.constexpr,
    BC: tl.constexpr,
):
    """dy = c0 g + c1 y + c2, written out."""
    k = tl.program_id(1).to(tl.int64)
    tile = tl.program_id(0)
    m = tl.arange(0, BM)
    valid = (m < tl.load(rows + k) * PER_SAMPLE - tile * BM)[:, None]
    first = (k * M + tile.to(tl.int64) * BM) * C
    for start in range(0, C, BC):
        c = start + tl.arange(0, BC)
        inside = c < C
        at = first + m[:, None] * C + c[None, :]
        mask = valid & inside[None, :]
        value = output_gradient(g, y, coefficients + k * (3 * C), at, mask, c, inside, C)
        tl.store(dy + at, value.to(dy.dtype.element_ty), mask=mask)


@kernel(plain=("B",))
def pooled(
    y,
    normal,
    out,
    rows,
    B,
    PER_SAMPLE: tl.constexpr,
    C: tl.constexpr,
    NORMAL: tl.constexpr,
    BS: tl.constexpr,
    BC: tl.constexpr,
):
    """Mean over the positions of relu(scale y + shift), float32; zero for padding."""
    k = tl.program_id(1).to(tl.int64)
    c_tiles: tl.constexpr = (C + BC - 1) // BC
    c = tl.program_id(0) % c_tiles * BC + tl.arange(0, BC)
    sample = tl.program_id(0) // c_tiles * BS + tl.arange(0, BS)
    inside = c < C
    mask = (sample < tl.load(rows + k))[:, None] & inside[None, :]
    at = (k * B + sample)[:, None] * (PER_SAMPLE * C) + c[None, :]
    total = tl.zeros((BS, BC), tl.float32)
    for p in range(0, PER_SAMPLE):
        raw = tl.load(y + at + p * C, mask=mask, other=0.0)
        if NORMAL:
            total += activated(raw, normal + k * (4 * C), c, inside, C)
        else:
            total += raw.to(tl.float32)
    at = (k * B + sample)[:, None] * C + c[None, :]
    tl.store(out + at, tl.where(mask, total / PER_SAMPLE, 0.0), mask=(sample < B)[:, None] & inside[None, :])


@kernel(plain=("B",))
def pooled_backward(
    d_features,
    y,
    normal,
    g,
    partial,
    rows,
    B,
    PER_SAMPLE: tl.constexpr,
    C: tl.constexpr,
    BS: tl.constexpr,
    BC: tl.constexpr,
):
    """The gradient before the global average, masked by ReLU, and its sums over BS samples `[K, T, 2, C]`."""
    k = tl.program_id(2).to(tl.int64)
    tile = tl.program_id(1)
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    inside = c < C
    sample = tile * BS + tl.arange(0, BS)
    mask = (sample < tl.load(rows + k))[:, None] & inside[None, :]
    normal += k * (4 * C)
    scale = channels(normal, c, inside)
    shift = channels(normal + C, c, inside)
    mean = channels(normal + 2 * C, c, inside)
    at = (k * B + sample)[:, None] * C + c[None, :]
    share = tl.load(d_features + at, mask=mask, other=0.0) / PER_SAMPLE
    at = (k * B + sample)[:, None] * (PER_SAMPLE * C) + c[None, :]
    total = tl.zeros((BS, BC), tl.float32)
    centred = tl.zeros((BS, BC), tl.float32)
    for p in range(0, PER_SAMPLE):
        raw = tl.load(y + at + p * C, mask=mask, other=0.0).to(tl.float32)
        gradient = tl.where(mask & (raw * scale + shift > 0.0), share, 0.0).to(g.dtype.element_ty)
        tl.store(g + at + p * C, gradient, mask=mask)
        total += gradient.to(tl.float32)
        centred += gradient.to(tl.float32) * (raw - mean)
    tiles = (B + BS - 1) // BS
    out = partial + (k * tiles + tile) * (2 * C) + c
    tl.store(out, tl.sum(total, 0), mask=inside)
    tl.store(out + C, tl.sum(centred, 0), mask=inside)
