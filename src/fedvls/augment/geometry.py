"""Shear, translation and rotation by the nearest pixel, black where nothing comes from: PIL's `Image.transform`.

PIL walks through source coordinates in 16.16 fixed point. So does this module, in int32, and therefore picks the same
pixels on every device.
"""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from torch import Tensor

GEOMETRIC = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")


def nearest(x: Tensor, magnitudes: Tensor) -> Tensor:
    """Warp each image by its own magnitude of one operation; where all its magnitudes are 0 it stays as it is.

    `magnitudes` is float64 `[B, 5]`, in the order of `GEOMETRIC`. The source of the pixel whose centre is (x, y), from
    the top left corner: ShearX (x + m y, y), ShearY (x, y + m x), TranslateX (x - m, y) and TranslateY (x, y - m) in
    whole pixels (cut towards 0), Rotate by m degrees counter-clockwise about the middle.
    """
    samples, channels, height, width = x.shape
    a, b, c = source_numbers(magnitudes, height, width)[..., None, None].unbind(2)
    columns, rows = _counted(width, x.device), _counted(height, x.device)[:, None]
    across, down = ((c + b * rows) + a * columns).bitwise_right_shift_(16).unbind(1)
    # With a black frame of one pixel around the image, "outside" is a place like any other.
    place = down.clamp_(0, height + 1).mul_(width + 2).add_(across.clamp_(0, width + 1)).long()
    framed = F.pad(x, (1, 1, 1, 1)).view(samples, channels, -1)
    return framed.gather(2, place.view(samples, 1, -1).expand(-1, channels, -1)).view(x.shape)


def _matrix(magnitudes: Tensor, height: int, width: int) -> Tensor:
    """`[B, 2, 3]`: source = matrix (x, y, 1), the six numbers that `Image.transform` takes."""
    shear_x, shear_y, translate_x, translate_y, degrees = magnitudes.unbind(1)
    angle = torch.deg2rad(degrees)
    cos, sin = torch.cos(angle), torch.sin(angle)
    middle_x, middle_y = width / 2, height / 2
    move_x = middle_x - cos * middle_x + sin * middle_y - translate_x.trunc()
    move_y = middle_y - sin * middle_x - cos * middle_y - translate_y.trunc()
    return torch.stack([cos, shear_x - sin, move_x, shear_y + sin, cos, move_y], 1).view(-1, 2, 3)


def source_numbers(magnitudes: Tensor, height: int, width: int) -> Tensor:
    """Numbers (a, b, c) in 16.16 fixed point, int32 `[B, 2, 3]`: the pixel in column x and row y comes from column and
    row (c + b y + a x) >> 16, counted from 1."""
    matrix = _matrix(magnitudes, height, width)
    first = matrix[..., 2] + matrix[..., 0] * 0.5 + matrix[..., 1] * 0.5 + 1
    numbers = torch.stack([matrix[..., 0], matrix[..., 1], first], -1)
    return (numbers * 65536 + 0.5).floor_().to(torch.int32)


@functools.cache
def _counted(n: int, device: torch.device) -> Tensor:
    return torch.arange(n, device=device, dtype=torch.int32)
