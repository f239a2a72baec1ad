"""Shear, translation and rotation by cubic-spline interpolation: what `scipy.ndimage.affine_transform` does.

That is order 3 with `mode="constant"`: a source outside the image gives black, and splines are mirrored at the edge.
Everything is in float64, so that the rounding to whole pixel values falls the same way on every device.
"""

from __future__ import annotations

import functools

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import UsageError


def cubic_spline(x: Tensor, magnitudes: Tensor) -> Tensor:
    """Warp each image by its own magnitude of one operation; where all its magnitudes are 0 it stays as it is.

    `magnitudes` is float64 `[B, 5]`, in the order of `GEOMETRIC`. With (i, j) the row and column counted from the point
    (H/2 + 1/2, W/2 + 1/2), the source of a pixel is: ShearX (i + m j, j), ShearY (i, j + m i), TranslateX (i, j + m),
    TranslateY (i + m, j), Rotate (i cos m - j sin m, i sin m + j cos m). So ShearX moves rows and ShearY columns, other
    than in PIL, and the centre is one pixel off the middle: both as in the implementation that this variant follows.
    """
    height, width = x.shape[2:]
    if min(height, width) < 3:
        raise UsageError(f"images of {height} x {width} pixels: cubic splines need at least 3 in each direction")
    rows, columns = _source(magnitudes, height, width)
    inside = (rows >= 0) & (rows <= height - 1) & (columns >= 0) & (columns <= width - 1)
    values = _sample(_coefficients(x), torch.where(inside, rows, 0), torch.where(inside, columns, 0))
    rounded = (values + 0.5).clamp_(0, 255.5).to(torch.int16)
    return (rounded * inside.unsqueeze(1)).to(torch.uint8)


def _source(magnitudes: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Source row and column of every pixel, float64 `[B, H, W]`."""
    shear_x, shear_y, translate_x, translate_y, degrees = magnitudes[:, :, None, None].unbind(1)
    cos, sin = torch.cos(torch.deg2rad(degrees)), torch.sin(torch.deg2rad(degrees))
    middle_i, middle_j = height / 2 + 0.5, width / 2 + 0.5
    i = torch.arange(height, device=cos.device, dtype=cos.dtype)[:, None]
    j = torch.arange(width, device=cos.device, dtype=cos.dtype)
    # In scipy's order of additions: whether a source on the very edge counts as inside hangs on the last bit.
    offset_i = translate_y - cos * middle_i - (shear_x - sin) * middle_j + middle_i
    offset_j = translate_x - (shear_y + sin) * middle_i - cos * middle_j + middle_j
    return offset_i + cos * i + (shear_x - sin) * j, offset_j + (shear_y + sin) * i + cos * j


def _coefficients(x: Tensor) -> Tensor:
    """The B-spline coefficients of each channel, with a mirrored frame of two pixels, float64 `[B, C, H+4, W+4]`."""
    vertical, horizontal = (_prefilter(side, x.device) for side in x.shape[2:])
    return F.pad(vertical @ x.double() @ horizontal.T, (2, 2, 2, 2), mode="reflect")


@functools.cache
def _prefilter(side: int, device: torch.device) -> Tensor:
    """The matrix from pixel values to coefficients: the inverse of (1/6, 4/6, 1/6), mirrored at both ends."""
    weights = np.eye(side) * 4
    for shift in (-1, 1):
        place = np.arange(side) + shift
        place = np.abs(place)
        place = np.where(place >= side, 2 * (side - 1) - place, place)
        weights[np.arange(side), place] += 1
    return torch.from_numpy(np.linalg.inv(weights / 6)).to(device)


def _sample(coefficients: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The spline at these places.

    It weights 4 x 4 coefficients. All weights are positive, so that two neighbours with their weights are one linear
    interpolation between them, and the 16 are four bilinear ones, for which there is a fast kernel.
    """
    height, width = coefficients.shape[2:]
    total = torch.zeros(())
    for row, weight_i in _linear_pairs(rows):
        for column, weight_j in _linear_pairs(columns):
            # Places count from -1 to 1 over the frame, whose first pixel has coordinate -2.
            place = torch.stack([(column + 2) * (2 / (width - 1)) - 1, (row + 2) * (2 / (height - 1)) - 1], -1)
            values = F.grid_sample(coefficients, place, mode="bilinear", padding_mode="border", align_corners=True)
            total = values.mul_((weight_i * weight_j).unsqueeze(1)).add_(total)
    return total


def _linear_pairs(places: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Two places between neighbours, and their weights, that stand for the four cubic B-splines around each place."""
    below = places.floor()
    t = places - below
    s = 1 - t
    far_below, far_above = s**3 / 6, t**3 / 6
    near_below, near_above = (t * t * (t - 2) * 3 + 4) / 6, (s * s * (s - 2) * 3 + 4) / 6
    lower, upper = far_below + near_below, near_above + far_above
    return (below - 1 + near_below / lower, lower), (below + 1 + far_above / upper, upper)
