"""AutoAugment's operations on uint8 images `[B, C, H, W]`: one program per image, which does its own operation only.

To the last bit what `augment.operations` does in plain PyTorch: whole numbers wherever PIL has them, other products and
sums in PIL's order, each rounded by itself (the compiler may not fuse them).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from .launching import kernel
from .tiles import power

HALVES = tl.constexpr(1.5 * 2**52)
"""A float64 of this size has no digits behind the point: a sum with it is rounded to a whole number, halves to even."""

LARGEST = 4096
"""Most pixels of an image: a program holds a whole channel."""

NAMED = (
    "Rotate", "Posterize", "Solarize", "AutoContrast", "Equalize", "Invert",
    "Brightness", "Contrast", "Color", "Sharpness",
)  # fmt: skip
"""The operations whose codes the kernel is told. Up to the first all are warps, then tables follow, then blends."""


def operated(x: Tensor, steps: Sequence[tuple[Tensor, Tensor, Tensor]], codes: Mapping[str, int]) -> Tensor:
    """See `kernels.operated`."""
    samples, channels, height, width = x.shape
    block = power(height * width)
    for code, magnitude, source in steps:
        before, x = x, torch.empty_like(x)
        operation[(samples,)](
            before, x, code.contiguous(), magnitude.contiguous(), source,
            CHANNELS=channels, H=height, W=width, BLOCK=block,
            num_warps=4 if block <= 1024 else 8, enable_fp_fusion=False,
            **{name.upper(): codes[name] for name in NAMED},
        )  # fmt: skip
    return x


@triton.jit
def warped(x, out, source, p, inside, CHANNELS: tl.constexpr, H: tl.constexpr, W: tl.constexpr):
    """Every pixel from where it comes from, black outside; `source` points at the image's six numbers, 16.16 fixed."""
    row, column = p // W, p % W
    across = (tl.load(source + 2) + tl.load(source + 1) * row + tl.load(source) * column) >> 16
    down = (tl.load(source + 5) + tl.load(source + 4) * row + tl.load(source + 3) * column) >> 16
    there = inside & (across > 0) & (across <= W) & (down > 0) & (down <= H)  # counted from 1
    at = (down - 1) * W + across - 1
    for c in range(0, CHANNELS):
        value = tl.load(x + c * (H * W) + at, mask=there, other=0)
        tl.store(out + c * (H * W) + p, value, mask=inside)


@triton.jit
def stretched(value, inside):
    """AutoContrast of a channel."""
    low = tl.min(tl.where(inside, value, 255), 0)
    span = (tl.max(tl.where(inside, value, 0), 0) - low).to(tl.float64)
    if span > 0:
        scale = 255.0 / span
        moved = value.to(tl.float64) * scale + -low.to(tl.float64) * scale
        value = tl.minimum(tl.maximum(moved, 0.0), 255.0).to(tl.int32)
    return value


@triton.jit
def equalized(value, inside, PIXELS: tl.constexpr, BLOCK: tl.constexpr):
    """Equalize of a channel."""
    level = tl.arange(0, 256)
    value = tl.where(inside, value, 0)
    counts = tl.histogram(value, 256) - tl.where(level == 0, BLOCK - PIXELS, 0)
    below = tl.cumsum(counts, 0) - counts
    step = tl.sum(tl.where(level == tl.max(value, 0), below, 0), 0) // 255
    if step > 0:
        value = tl.minimum((tl.gather(below, value, 0) + step // 2) // step, 255)
    return value


@triton.jit
def smoothed(x, value, p, inside, H: tl.constexpr, W: tl.constexpr):
    """The rounded mean of each 3x3 neighbourhood of a channel, the centre counted five times; the edge stays."""
    row, column = p // W, p % W
    within = inside & (row > 0) & (row < H - 1) & (column > 0) & (column < W - 1)
    total = 4 * value
    for down in tl.static_range(-1, 2):
        for across in tl.static_range(-1, 2):
            total += tl.load(x + p + (down * W + across), mask=within, other=0).to(tl.int32)
    return tl.where(within, (total + 6) // 13, value)


@triton.jit
def luminance(x, p, inside, CHANNELS: tl.constexpr, PIXELS: tl.constexpr):
    """The grey image."""
    grey = tl.load(x + p, mask=inside, other=0).to(tl.int32)
    if CHANNELS == 3:
        green = tl.load(x + PIXELS + p, mask=inside, other=0).to(tl.int32)
        blue = tl.load(x + 2 * PIXELS + p, mask=inside, other=0).to(tl.int32)
        grey = (grey * 19595 + green * 38470 + blue * 7471 + 32768) >> 16
    return tl.where(inside, grey, 0)


@kernel()
def operation(
    x,
    out,
    code,
    magnitude,
    source,
    CHANNELS: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    BLOCK: tl.constexpr,
    ROTATE: tl.constexpr,
    POSTERIZE: tl.constexpr,
    SOLARIZE: tl.constexpr,
    AUTOCONTRAST: tl.constexpr,
    EQUALIZE: tl.constexpr,
    INVERT: tl.constexpr,
    BRIGHTNESS: tl.constexpr,
    CONTRAST: tl.constexpr,
    COLOR: tl.constexpr,
    SHARPNESS: tl.constexpr,
):
    """Operation `code[b]` at `magnitude[b]` on image b."""
    PIXELS: tl.constexpr = H * W
    b = tl.program_id(0).to(tl.int64)
    what = tl.load(code + b)
    size = tl.load(magnitude + b)
    x += b * (CHANNELS * PIXELS)
    out += b * (CHANNELS * PIXELS)
    p = tl.arange(0, BLOCK)
    inside = p < PIXELS
    if what <= ROTATE:
        warped(x, out, source + b * 6, p, inside, CHANNELS, H, W)
    elif what <= INVERT:
        for c in range(0, CHANNELS):
            value = tl.load(x + c * PIXELS + p, mask=inside, other=0).to(tl.int32)
            if what == POSTERIZE:
                dropped = 8 - ((size + HALVES) - HALVES).to(tl.int32)
                value = (value >> dropped) << dropped
            elif what == SOLARIZE:
                value = tl.where(value.to(tl.float64) < size, value, 255 - value)
            elif what == AUTOCONTRAST:
                value = stretched(value, inside)
            elif what == EQUALIZE:
                value = equalized(value, inside, PIXELS, BLOCK)
            else:
                value = 255 - value
            tl.store(out + c * PIXELS + p, value.to(tl.uint8), mask=inside)
    else:
        grey = luminance(x, p, inside, CHANNELS, PIXELS)
        mean = (2 * tl.sum(grey, 0) + PIXELS) // (2 * PIXELS)
        for c in range(0, CHANNELS):
            value = tl.load(x + c * PIXELS + p, mask=inside, other=0).to(tl.int32)
            base = value  # of an image that stays as it is
            if what == BRIGHTNESS:
                base = tl.zeros_like(value)
            elif what == CONTRAST:
                base = tl.zeros_like(value) + mean
            elif what == COLOR:
                base = grey
            elif what == SHARPNESS:
                base = smoothed(x + c * PIXELS, value, p, inside, H, W)
            blended = (value - base).to(tl.float32) * size.to(tl.float32) + base.to(tl.float32)
            blended = tl.minimum(tl.maximum(blended, 0.0), 255.0)
            tl.store(out + c * PIXELS + p, blended.to(tl.int32).to(tl.uint8), mask=inside)
