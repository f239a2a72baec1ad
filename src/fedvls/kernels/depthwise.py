"""Triton kernels of 3x3 convolutions of each channel by itself (padding 1), channels last: forward.

A program walks down the rows of a band of columns and keeps the rows that outputs share in registers, so that each is
read once and passes BatchNorm and ReLU once; the row after next is already on its way. A lane owns two neighbouring
columns of the input. Small images leave little to walk, so a program takes several bands one after the other.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .launching import kernel
from .pointwise import channels


@triton.jit
def band_of(rows, k, number, start, PER_SAMPLE: tl.constexpr, BN: tl.constexpr):
    """A band: whether there is anything in it, and each lane's sample (from `start`), pair of columns and validity.
    Lanes without work repeat the first one's."""
    lane = tl.arange(0, BN)
    real = tl.load(rows + k) * PER_SAMPLE - number * BN
    n = number * BN + tl.where(lane < real, lane, 0)
    return real > 0, n // PER_SAMPLE - start, n % PER_SAMPLE, (lane < real)[:, None]


@triton.jit
def taps(w, c, inside, ROW: tl.constexpr):
    """One row of each channel's filter; `w` points at the client's `[C, 9]`."""
    at = w + c * 9 + 3 * ROW
    left = tl.load(at, mask=inside, other=0.0).to(tl.float32)
    middle = tl.load(at + 1, mask=inside, other=0.0).to(tl.float32)
    right = tl.load(at + 2, mask=inside, other=0.0).to(tl.float32)
    return left[None, :], middle[None, :], right[None, :]


@triton.jit
def four(x, at, left, second, right, W: tl.constexpr, C: tl.constexpr):
    """The column before a pair, the pair, and the column after it: all that two neighbouring outputs need of a row."""
    a = tl.load(x + at - C, mask=left, other=0.0)
    b = tl.load(x + at)
    c = tl.load(x + at + C, mask=second, other=0.0) if W % 2 == 1 else tl.load(x + at + C)
    d = tl.load(x + at + 2 * C, mask=right, other=0.0)
    return a, b, c, d


@triton.jit
def seen(raw, mask, scale, shift, MASKED: tl.constexpr, NORMAL: tl.constexpr):
    """What the convolution sees there: the input through BatchNorm and ReLU (or times `scale`), zero outside."""
    value = raw.to(tl.float32) * scale
    if NORMAL:
        value = tl.maximum(value + shift, 0.0)
        if MASKED:
            value = tl.where(mask, value, 0.0)
    return value


@triton.jit
def finish(
    value,
    y,
    at,
    mask,
    bias,
    counted,
    total,
    squares,
    pivot,
    first,
    BIAS: tl.constexpr,
    STATISTICS: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Stores a row of outputs and takes it into the sums, shifted by the first output against cancellation."""
    if BIAS:
        value = tl.maximum(value + bias, 0.0)
    written = value.to(y.dtype.element_ty)
    tl.store(y + at, written, mask=mask)
    if STATISTICS:
        value = written.to(tl.float32)  # as it is read later
        pivot = tl.where(first, value, pivot)
        difference = value - pivot
        if MASKED:
            difference = tl.where(counted, difference, 0.0)
        total += difference
        squares += difference * difference
    return total, squares, pivot


@triton.jit
def statistics(partial, counts, total, squares, pivot, each, number, c, inside, C: tl.constexpr):
    """Mean and squared deviations of the tile, from sums over `each` outputs per lane shifted by a pivot per lane."""
    valid = each > 0.0
    count = tl.maximum(tl.sum(each, 0), 1.0)
    mine = tl.maximum(each, 1.0)
    means = tl.where(valid, pivot + total / mine, 0.0)
    mean = tl.sum(means * each, 0) / count
    deviation = means - mean[None, :]
    within = tl.where(valid, tl.maximum(squares - total * total / mine, 0.0), 0.0) + deviation * deviation * each
    at = partial + number * (2 * C) + c
    tl.store(at, mean, mask=inside)
    tl.store(at + C, tl.sum(within, 0), mask=inside)
    tl.store(counts + number, tl.sum(tl.sum(each, 1), 0))


@kernel(plain=("B",))
def forward(
    x,
    w,
    normal,
    y,
    partial,
    counts,
    rows,
    bias,
    B,
    H: tl.constexpr,
    W: tl.constexpr,
    C: tl.constexpr,
    STRIDE: tl.constexpr,
    NORMAL: tl.constexpr,
    STATISTICS: tl.constexpr,
    BIAS: tl.constexpr,
    BANDS: tl.constexpr,
    BN: tl.constexpr,
    BC: tl.constexpr,
):
    """y = depthwise(relu(scale x + shift)); with STATISTICS, mean and squared deviations per tile `[K, T, 2, C]`.

    BIAS: a folded network's form: bias and ReLU behind, nothing in front.
    """
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
    y += (k * B + start) * (HO * WO * C)
    w += k * (C * 9)
    w00, w01, w02 = taps(w, c, inside, 0)
    w10, w11, w12 = taps(w, c, inside, 1)
    w20, w21, w22 = taps(w, c, inside, 2)
    if NORMAL:
        scale = channels(normal + k * (4 * C), c, inside)
        shift = channels(normal + k * (4 * C) + C, c, inside)
    else:
        scale = 1.0
        shift = 0.0
    after = shift
    if BIAS:
        after = channels(bias, c, inside)
    zero = tl.zeros((BN, BC), tl.float32)
    total, squares, pivot = zero, zero, zero
    each = tl.zeros((BN, 1), tl.float32)
    for band in range(0, BANDS):
        some, sample, pair, valid = band_of(rows, k, tile * BANDS + band, start, PER_SAMPLE, BN)
        steps = tl.where(some, HO, 0)  # nothing to do where all is padding
        if not some:
            sample *= 0  # beyond the batch, perhaps
        mask = valid & inside[None, :]
        source = (sample * (H * W) + 2 * pair)[:, None] * C + channel[None, :]
        left = (pair > 0)[:, None]
        second = (2 * pair + 1 < W)[:, None]
        right = (2 * pair + 2 < W)[:, None]
        if STRIDE == 1:
            both = mask & second
            ta, tb, tc, td = zero, zero, zero, zero
            a, b, d, e = four(x, source, left, second, right, W, C)
            ma = seen(a, left, scale, shift, True, NORMAL)
            mb = seen(b, left, scale, shift, False, NORMAL)
            mc = seen(d, second, scale, shift, W % 2 == 1, NORMAL)
            md = seen(e, right, scale, shift, True, NORMAL)
            a, b, d, e = four(x, source + min(1, H - 1) * (W * C), left, second, right, W, C)
            for r in range(0, steps):
                at = source + tl.minimum(r + 2, H - 1) * (W * C)
                next_a, next_b, next_d, next_e = four(x, at, left, second, right, W, C)
                there = tl.where(r + 1 < H, 1.0, 0.0)
                la = seen(a, left, scale * there, shift * there, True, NORMAL)
                lb = seen(b, left, scale * there, shift * there, False, NORMAL)
                lc = seen(d, second, scale * there, shift * there, W % 2 == 1, NORMAL)
                ld = seen(e, right, scale * there, shift * there, True, NORMAL)
                one = w00 * ta + w01 * tb + w02 * tc + w10 * ma + w11 * mb + w12 * mc + w20 * la + w21 * lb + w22 * lc
                two = w00 * tb + w01 * tc + w02 * td + w10 * mb + w11 * mc + w12 * md + w20 * lb + w21 * lc + w22 * ld
                at = source + r * (W * C)
                total, squares, pivot = finish(
                    one, y, at, mask, after, valid, total, squares, pivot, band + r == 0, BIAS, STATISTICS, BANDS > 1
                )
                total, squares, pivot = finish(
                    two, y, at + C, both, after, valid & second, total, squares, pivot, band + r < 0,
                    BIAS, STATISTICS, (BANDS > 1) | (W % 2 == 1),
                )  # fmt: skip
                ta, tb, tc, td = ma, mb, mc, md
                ma, mb, mc, md = la, lb, lc, ld
                a, b, d, e = next_a, next_b, next_d, next_e
            each += tl.where(valid, tl.where(second, 2.0, 1.0) * HO, 0.0)
        else:
            out = (sample * (HO * WO) + pair)[:, None] * C + channel[None, :]
            above = zero
            for r in range(0, steps):
                at = source + r * (2 * W * C)
                low = source + tl.minimum(2 * r + 1, H - 1) * (W * C)
                a, b, d = (
                    tl.load(x + at - C, mask=left, other=0.0),
                    tl.load(x + at),
                    tl.load(x + at + C, mask=second, other=0.0),
                )
                e, f, g = (
                    tl.load(x + low - C, mask=left, other=0.0),
                    tl.load(x + low),
                    tl.load(x + low + C, mask=second, other=0.0),
                )
                ma = seen(a, left, scale, shift, True, NORMAL)
                mb = seen(b, left, scale, shift, False, NORMAL)
                mc = seen(d, second, scale, shift, W % 2 == 1, NORMAL)
                here = above + w10 * ma + w11 * mb + w12 * mc
                there = tl.where(2 * r + 1 < H, 1.0, 0.0)
                la = seen(e, left, scale * there, shift * there, True, NORMAL)
                lb = seen(f, left, scale * there, shift * there, False, NORMAL)
                lc = seen(g, second, scale * there, shift * there, W % 2 == 1, NORMAL)
                here = here + w20 * la + w21 * lb + w22 * lc
                above = w00 * la + w01 * lb + w02 * lc
                total, squares, pivot = finish(
                    here, y, out + r * (WO * C), mask, after, valid, total, squares, pivot, band + r == 0,
                    BIAS, STATISTICS, BANDS > 1,
                )  # fmt: skip
            each += tl.where(valid, 1.0 * HO, 0.0)
    if STATISTICS:
        tiles = (B * PER_SAMPLE + BANDS * BN - 1) // (BANDS * BN)
        statistics(partial, counts, total, squares, pivot, each, k * tiles + tile, c, inside, C)
