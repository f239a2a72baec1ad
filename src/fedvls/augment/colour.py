"""Operations that blend an image with a degenerate version of itself: PIL's `ImageEnhance`, to the last bit."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def blend(degenerate: Tensor, x: Tensor, factor: Tensor) -> Tensor:
    """`degenerate + factor[B] (x - degenerate)`, cut to a whole number and to 0..255; factor 1 gives the image.

    In float32 and in this order, because the cut makes the last bit count.
    """
    base = degenerate.float()
    mixed = x.float().sub_(base).mul_(factor.float().view(-1, 1, 1, 1)).add_(base).clamp_(0, 255)
    return mixed.to(torch.int16).to(torch.uint8)  # by way of int16: on a CPU several times faster


def black(x: Tensor) -> Tensor:
    """What less Brightness leads to."""
    return torch.zeros(len(x), 1, 1, 1, dtype=torch.int32, device=x.device)


def mean_grey(x: Tensor) -> Tensor:
    """What less Contrast leads to: the mean luminance, rounded, int64 `[B, 1, 1, 1]`."""
    pixels = x.shape[2] * x.shape[3]
    return luminance(x).sum((1, 2, 3), keepdim=True).mul_(2).add_(pixels) // (2 * pixels)


def luminance(x: Tensor) -> Tensor:
    """What less Color leads to: the grey image, int32 `[B, 1, H, W]`. An image with one channel is its own.

    ITU-R 601 weights in 16 bits, rounded, as in `Image.convert("L")`.
    """
    if x.shape[1] == 1:
        return x.to(torch.int32)
    red, green, blue = x[:, 0:1], x[:, 1:2], x[:, 2:3]
    weighted = red.to(torch.int32).mul_(19595).add_(green, alpha=38470).add_(blue, alpha=7471)
    return weighted.add_(32768).bitwise_right_shift_(16)


def smooth(x: Tensor) -> Tensor:
    """What less Sharpness leads to: the mean of each 3x3 neighbourhood, the centre counted five times, int16.

    Pixels on the edge stay. The 13 pixels are added as integers; their mean is never halfway between two integers, so
    that its rounding is exact.
    """
    height, width = x.shape[2:]
    result = x.to(torch.int16)
    if min(height, width) < 3:
        return result
    # The batch as one long row: sums that cross the edge of an image are wrong, and are not used.
    row = result.flatten()
    across = (row[:-2] + row[1:-1]).add_(row[2:])
    total = (across[: -2 * width] + across[width:-width]).add_(across[2 * width :])
    total.add_(row[width + 1 : -width - 1], alpha=4)
    mean = torch.empty_like(result)
    mean.view(-1)[width + 1 : -width - 1] = (total * (1 / 13)).add_(0.5)
    result[:, :, 1:-1, 1:-1] = mean[:, :, 1:-1, 1:-1]
    return result


DEGENERATES: dict[str, Callable[[Tensor], Tensor]] = {
    "Brightness": black,
    "Contrast": mean_grey,
    "Color": luminance,
    "Sharpness": smooth,
}
