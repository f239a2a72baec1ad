"""Random crop with zero padding, and random horizontal flip."""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import UsageError
from .augmentation import AUGMENTATIONS, Augmentation, pick


@AUGMENTATIONS.register("none")
def none() -> Augmentation:
    """Images as they are."""
    return Augmentation(_unchanged, 0)


@AUGMENTATIONS.register("crop")
def crop(pad: int = 4) -> Augmentation:
    """Pad with `pad` black pixels on every side, then cut out an image of the old size at a random place."""
    if pad < 0:
        raise UsageError(f"augmentation 'crop': pad = {pad} must be at least 0")
    return Augmentation(functools.partial(_crop, pad), 2)


@AUGMENTATIONS.register("flip")
def flip(flip: float = 0.5) -> Augmentation:
    """Mirror left and right with probability `flip`."""
    if not 0 <= flip <= 1:
        raise UsageError(f"augmentation 'flip': flip = {flip} must be from 0 to 1")
    return Augmentation(functools.partial(_flip, flip), 1)


@AUGMENTATIONS.register("crop-flip")
def crop_flip(pad: int = 4, flip: float = 0.5) -> Augmentation:
    """A random crop with `pad` black pixels around, then a mirror image with probability `flip`."""
    return crop(pad=pad).then(_named_flip(flip=flip))


_named_flip = flip  # `crop_flip` has an argument of that name


def _unchanged(x: Tensor, u: Tensor) -> Tensor:
    return x


def _crop(pad: int, x: Tensor, u: Tensor) -> Tensor:
    """Every row of a crop is a run of `width` bytes of the padded images: one selection among all such runs.

    Whole rows are copied, several times faster than pixel by pixel.
    """
    samples, channels, height, width = x.shape
    padded = F.pad(x.contiguous(), (pad, pad, pad, pad))
    tall, wide = height + 2 * pad, width + 2 * pad
    runs = padded.as_strided((max(padded.numel() - width + 1, 0), width), (1, 1))

    def counted(n: int, step: int, axis: int) -> Tensor:
        return (torch.arange(n, device=x.device) * step).view(*(-1 if a == axis else 1 for a in range(3)))

    corner = pick(u[:, 0], 2 * pad + 1) * wide + pick(u[:, 1], 2 * pad + 1)
    starts = corner.view(-1, 1, 1) + counted(samples, channels * tall * wide, 0)
    starts = starts + counted(channels, tall * wide, 1) + counted(height, wide, 2)
    return runs.index_select(0, starts.flatten()).view(x.shape)


def _flip(probability: float, x: Tensor, u: Tensor) -> Tensor:
    """x, with the bits in which it differs from its mirror image changed where it is to be mirrored."""
    mask = (u[:, 0] < probability).to(torch.uint8).mul_(255).view(-1, 1, 1, 1)
    return x.flip(-1).bitwise_xor_(x).bitwise_and_(mask).bitwise_xor_(x)
