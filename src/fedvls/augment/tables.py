"""Operations that map a pixel value to a pixel value, each as a table of 256 entries per image (and channel).

A table is uint8 `[B, C, 256]`, or `[B, 1, 256]` where the channels share it. The results are those of PIL's
`ImageOps`, to the last bit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import Tensor

Table = Callable[[Tensor, Tensor], Tensor]


def look_up(x: Tensor, table: Tensor) -> Tensor:
    """Send every pixel through its image's (and channel's) table."""
    samples, channels, height, width = x.shape
    entries = table.expand(-1, channels, -1)
    return entries.gather(2, x.view(samples, channels, height * width).long()).view(x.shape)


@functools.cache
def levels(device: torch.device) -> Tensor:
    """The pixel values 0..255 as `[1, 1, 256]`, int32."""
    return torch.arange(256, device=device, dtype=torch.int32).view(1, 1, 256)


def unchanged(x: Tensor) -> Tensor:
    """The table that changes nothing."""
    return levels(x.device).to(torch.uint8).expand(len(x), 1, 256)


def posterize(x: Tensor, bits: Tensor) -> Tensor:
    """Keep this many of the upper bits, rounded to a whole number."""
    dropped = 8 - bits.round().to(torch.int32).view(-1, 1, 1)
    return ((levels(x.device) >> dropped) << dropped).to(torch.uint8)


def solarize(x: Tensor, threshold: Tensor) -> Tensor:
    """Invert the values that are not below the threshold."""
    return torch.where(levels(x.device) < threshold.view(-1, 1, 1), levels(x.device), 255 - levels(x.device)).to(
        torch.uint8
    )


def invert(x: Tensor, unused: Tensor) -> Tensor:
    """255 - value."""
    return unchanged(x).flip(-1)


def auto_contrast(x: Tensor, unused: Tensor) -> Tensor:
    """Stretch each channel so that its darkest value becomes 0 and its brightest 255; one of a single value stays."""
    pixels = x.flatten(2)
    low, high = (extreme.double().unsqueeze(-1) for extreme in (pixels.amin(2), pixels.amax(2)))
    # In float64 and in PIL's order of operations: the product is cut to a whole number, so the last bit counts. A
    # number divided by a tensor would be its product with the reciprocal, hence the division of two tensors.
    span = high - low
    scale = torch.where(span > 0, torch.full_like(span, 255) / span, 1)
    offset = torch.where(span > 0, -low * scale, 0)
    return (levels(x.device) * scale).add_(offset).clamp_(0, 255).to(torch.int16).to(torch.uint8)


def histogram(x: Tensor) -> Tensor:
    """How many pixels have each value, int32 `[B, C, 256]`."""
    values = x.flatten(2).long()
    counts = torch.zeros(*values.shape[:2], 256, dtype=torch.int32, device=x.device)
    return counts.scatter_add_(2, values, torch.ones_like(values, dtype=torch.int32))


def equalize(x: Tensor, unused: Tensor) -> Tensor:
    """Spread each channel's values so that all are about equally frequent; one of too few values stays."""
    counts = histogram(x)
    below = counts.cumsum(2, dtype=torch.int32).sub_(counts)
    brightest = x.flatten(2).amax(2, keepdim=True).long()
    # PIL's step: the pixels below the brightest value, shared among 255 levels.
    step = below.gather(2, brightest) // 255
    stays = (step == 0).to(torch.int32)
    share = below.add_(step // 2).mul_(1 - stays).add_(levels(x.device) * stays)
    # Whole numbers below 2^24, so that their quotient in float32, cut, is that of integers; and much faster.
    return (share.float() / (step + stays)).clamp_(max=255).to(torch.int16).to(torch.uint8)


TABLES: dict[str, Table] = {
    "Posterize": posterize,
    "Solarize": solarize,
    "AutoContrast": auto_contrast,
    "Equalize": equalize,
    "Invert": invert,
}
