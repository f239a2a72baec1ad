"""Triton kernel of the backward pass of 3x3 convolutions of each channel by itself.

dx[p] = sum_t w[t] dy[p + 1 - t] and dw[t] = sum_p z[p] dy[p + 1 - t] need the same neighbours dy, so one walk down the
rows gives both; what the next row needs is already on its way.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .depthwise import band_of, four, taps
from .launching import kernel
from .pointwise import channels


@triton.jit
def slope(of_g, of_y, mask, c0, c1, c2, MASKED: tl.constexpr):
    """dy = c0 g + c1 y + c2, zero outside."""
    value = c0 * of_g.to(tl.float32) + (c1 * of_y.to(tl.float32) + c2)
    if MASKED:
        value = tl.where(mask, value, 0.0)
    return value


@triton.jit
def slopes(ga, gb, gc, gd, ya, yb, yc, yd, left, second, right, c0, c1, c2, W: tl.constexpr):
    """dy of the column before a pair, of the pair, and of the column after it."""
    a = slope(ga, ya, left, c0, c1, c2, True)
    b = slope(gb, yb, left, c0, c1, c2, False)
    c = slope(gc, yc, second, c0, c1, c2, W % 2 == 1)
    d = slope(gd, yd, right, c0, c1, c2, True)
    return a, b, c, d


@triton.jit
def activation(raw, scale, shift, there, MASKED: tl.constexpr):
    """The raw input in float32, and what the convolution saw of it."""
    value = raw.to(tl.float32)
    z = tl.maximum(value * scale + shift, 0.0)
    if MASKED:
        z = tl.where(there, z, 0.0)
    return value, z


@triton.jit
def stored(gradient, raw, z, dx, at, mask, mean, total, centred):
    """Masks a gradient by the ReLU that made z, stores it, and takes it into the sums."""
    gradient = tl.where(z > 0.0, gradient, 0.0)
    tl.store(dx + at, gradient.to(dx.dtype.element_ty), mask=mask)
    return total + gradient, centred + gradient * (raw - mean)


@kernel(plain=("B",))
def backward(
    g,
    y,
    coefficients,
    w,
    x,
    normal,
    dx,
    partial,
    weights,
    rows,
    B,
    H: tl.constexpr,
    W: tl.constexpr,
    C: tl.constexpr,
    STRIDE: tl.constexpr,
    BANDS: tl.constexpr,
    BN: tl.constexpr,
    BC: tl.constexpr,
):
    """dx with the tile's sums `[K, T, 2, C]`, and the tile's share of dw `[K, T, C, 9]`."""
    HO: tl.constexpr = (H - 1) // STRIDE + 1
    WO: tl.constexpr = (W - 1) // STRIDE + 1
    PER_SAMPLE: tl.constexpr = (W + 1) // 2
    c_tiles: tl.constexpr = (C + BC - 1) // BC
    k = tl.program_id(1).to(tl.int64)
    tile = tl.program_id(0) // c_tiles
    c = tl.program_id(0) % c_tiles * BC + tl.arange(0, BC)
    start = tile * (BANDS * BN) // PER_SAMPLE
    inside = c < C
    channel = c
    if C % BC > 0:
        channel = tl.minimum(c, C - 1)
    x += (k * B + start) * (H * W * C)
    dx += (k * B + start) * (H * W * C)
    g += (k * B + start) * (HO * WO * C)
    y += (k * B + start) * (HO * WO * C)
    w += k * (C * 9)
    normal += k * (4 * C)
    coefficients += k * (3 * C)
    w00, w01, w02 = taps(w, c, inside, 0)
    w10, w11, w12 = taps(w, c, inside, 1)
    w20, w21, w22 = taps(w, c, inside, 2)
    scale = channels(normal, c, inside)
    shift = channels(normal + C, c, inside)
    mean = channels(normal + 2 * C, c, inside)
    zero = tl.zeros((BN, BC), tl.float32)
    total, centred = zero, zero
    d00, d01, d02 = zero, zero, zero
    d10, d11, d12 = zero, zero, zero
    d20, d21, d22 = zero, zero, zero
    for band in range(0, BANDS):
        some, sample, pair, valid = band_of(rows, k, tile * BANDS + band, start, PER_SAMPLE, BN)
        steps = tl.where(some, HO, 0)  # nothing to do where all is padding
        if not some:
            sample *= 0  # beyond the batch, perhaps
        counts = tl.where(valid, 1.0, 0.0)  # a lane without work has no gradient
        c0 = channels(coefficients, c, inside) * counts
        c1 = channels(coefficients + C, c, inside) * counts
        c2 = channels(coefficients + 2 * C, c, inside) * counts
        mask = valid & inside[None, :]
        source = (sample * (H * W) + 2 * pair)[:, None] * C + channel[None, :]
        second = (2 * pair + 1 < W)[:, None]
        both = mask & second
        if STRIDE == 1:
            left = (pair > 0)[:, None]
            right = (2 * pair + 2 < W)[:, None]
            ta, tb, tc, td = zero, zero, zero, zero
            ga, gb, gc, gd = four(g, source, left, second, right, W, C)
            ya, yb, yc, yd = four(y, source, left, second, right, W, C)
            ma, mb, mc, md = slopes(ga, gb, gc, gd, ya, yb, yc, yd, left, second, right, c0, c1, c2, W)
            ga, gb, gc, gd = four(g, source + min(1, H - 1) * (W * C), left, second, right, W, C)
            ya, yb, yc, yd = four(y, source + min(1, H - 1) * (W * C), left, second, right, W, C)
            xa = tl.load(x + source)
            xb = tl.load(x + source + C, mask=second, other=0.0)
            for r in range(0, steps):
                at = source + tl.minimum(r + 2, H - 1) * (W * C)
                next_ga, next_gb, next_gc, next_gd = four(g, at, left, second, right, W, C)
                next_ya, next_yb, next_yc, next_yd = four(y, at, left, second, right, W, C)
                at = source + tl.minimum(r + 1, H - 1) * (W * C)
                next_xa = tl.load(x + at)
                next_xb = tl.load(x + at + C, mask=second, other=0.0)
                there = tl.where(r + 1 < H, 1.0, 0.0)
                la, lb, lc, ld = slopes(
                    ga, gb, gc, gd, ya, yb, yc, yd, left, second, right, c0 * there, c1 * there, c2 * there, W
                )
                at = source + r * (W * C)
                raw, z = activation(xa, scale, shift, second, False)
                value = w00 * lc + w01 * lb + w02 * la + w10 * mc + w11 * mb + w12 * ma + w20 * tc + w21 * tb + w22 * ta
                total, centred = stored(value, raw, z, dx, at, mask, mean, total, centred)
                raw, u = activation(xb, scale, shift, second, W % 2 == 1)
                value = w00 * ld + w01 * lc + w02 * lb + w10 * md + w11 * mc + w12 * mb + w20 * td + w21 * tc + w22 * tb
                total, centred = stored(value, raw, u, dx, at + C, both, mean, total, centred)
                d00 = d00 + z * lc + u * ld
                d01 = d01 + z * lb + u * lc
                d02 = d02 + z * la + u * lb
                d10 = d10 + z * mc + u * md
                d11 = d11 + z * mb + u * mc
                d12 = d12 + z * ma + u * mb
                d20 = d20 + z * tc + u * td
                d21 = d21 + z * tb + u * tc
                d22 = d22 + z * ta + u * tb
                ta, tb, tc, td = ma, mb, mc, md
                ma, mb, mc, md = la, lb, lc, ld
                ga, gb, gc, gd = next_ga, next_gb, next_gc, next_gd
                ya, yb, yc, yd = next_ya, next_yb, next_yc, next_yd
                xa, xb = next_xa, next_xb
        else:
            result = (sample * (HO * WO) + pair)[:, None] * C + channel[None, :]
            right = (pair + 1 < WO)[:, None]
            ga, gb = tl.load(g + result), tl.load(g + result + C, mask=right, other=0.0)
            ya, yb = tl.load(y + result), tl.load(y + result + C, mask=right, other=0.0)
            a = slope(ga, ya, right, c0, c1, c2, False)
            b = slope(gb, yb, right, c0, c1, c2, True)
            for r in range(0, steps):
                at = source + r * (2 * W * C)
                below = (tl.zeros_like(pair) + (2 * r + 1) < H)[:, None]
                xa, xb = tl.load(x + at), tl.load(x + at + C, mask=second, other=0.0)
                xc = tl.load(x + at + W * C, mask=valid & below, other=0.0)
                xd = tl.load(x + at + (W + 1) * C, mask=second & below, other=0.0)
                low = result + tl.minimum(r + 1, HO - 1) * (WO * C)
                ga, gb = tl.load(g + low), tl.load(g + low + C, mask=right, other=0.0)
                ya, yb = tl.load(y + low), tl.load(y + low + C, mask=right, other=0.0)
                raw, z = activation(xa, scale, shift, second, False)
                total, centred = stored(w11 * a, raw, z, dx, at, mask, mean, total, centred)
                d11 += z * a
                raw, z = activation(xb, scale, shift, second, W % 2 == 1)
                total, centred = stored(w12 * a + w10 * b, raw, z, dx, at + C, both, mean, total, centred)
                d12 += z * a
                d10 += z * b
                there = tl.where(r + 1 < HO, 1.0, 0.0)
                a_below = slope(ga, ya, right, c0 * there, c1 * there, c2 * there, False)
                b_below = slope(gb, yb, right, c0 * there, c1 * there, c2 * there, True)
                raw, z = activation(xc, scale, shift, below, H % 2 == 1)
                value = w21 * a + w01 * a_below
                total, centred = stored(value, raw, z, dx, at + W * C, mask & below, mean, total, centred)
                d21 += z * a
                d01 += z * a_below
                raw, z = activation(xd, scale, shift, second & below, (H % 2 == 1) | (W % 2 == 1))
                value = w22 * a + w20 * b + w02 * a_below + w00 * b_below
                total, centred = stored(value, raw, z, dx, at + (W + 1) * C, both & below, mean, total, centred)
                d22 += z * a
                d20 += z * b
                d02 += z * a_below
                d00 += z * b_below
                a, b = a_below, b_below
    tiles = (B * PER_SAMPLE + BANDS * BN - 1) // (BANDS * BN)
    number = k * tiles + tile
    at = partial + number * (2 * C) + c
    tl.store(at, tl.sum(total, 0), mask=inside)
    tl.store(at + C, tl.sum(centred, 0), mask=inside)
    at = weights + (number * C + c) * 9
    tl.store(at, tl.sum(d00, 0), mask=inside)
    tl.store(at + 1, tl.sum(d01, 0), mask=inside)
    tl.store(at + 2, tl.sum(d02, 0), mask=inside)
    tl.store(at + 3, tl.sum(d10, 0), mask=inside)
    tl.store(at + 4, tl.sum(d11, 0), mask=inside)
    tl.store(at + 5, tl.sum(d12, 0), mask=inside)
    tl.store(at + 6, tl.sum(d20, 0), mask=inside)
    tl.store(at + 7, tl.sum(d21, 0), mask=inside)
    tl.store(at + 8, tl.sum(d22, 0), mask=inside)
