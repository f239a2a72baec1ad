"""AutoAugment with the policy found on CIFAR-10 (Cubuk et al., CVPR 2019, appendix).

One of 25 sub-policies is chosen per image, all equally likely; each of its two operations is applied with its own
probability, one after the other.
"""

from __future__ import annotations

import functools
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .augmentation import AUGMENTATIONS, Augmentation, pick
from .crops import crop_flip
from .geometry import nearest
from .operations import CODES, UNCHANGED, operate
from .spline import cubic_spline

Variant = Literal["torchvision", "binned"]

# Sub-policy: (operation, probability, magnitude index) twice. An operation without magnitude has index 0 here.
CIFAR10 = (
    (("Invert", 0.1, 0), ("Contrast", 0.2, 6)),
    (("Rotate", 0.7, 2), ("TranslateX", 0.3, 9)),
    (("Sharpness", 0.8, 1), ("Sharpness", 0.9, 3)),
    (("ShearY", 0.5, 8), ("TranslateY", 0.7, 9)),
    (("AutoContrast", 0.5, 0), ("Equalize", 0.9, 0)),
    (("ShearY", 0.2, 7), ("Posterize", 0.3, 7)),
    (("Color", 0.4, 3), ("Brightness", 0.6, 7)),
    (("Sharpness", 0.3, 9), ("Brightness", 0.7, 9)),
    (("Equalize", 0.6, 0), ("Equalize", 0.5, 0)),
    (("Contrast", 0.6, 7), ("Sharpness", 0.6, 5)),
    (("Color", 0.7, 7), ("TranslateX", 0.5, 8)),
    (("Equalize", 0.3, 0), ("AutoContrast", 0.4, 0)),
    (("TranslateY", 0.4, 3), ("Sharpness", 0.2, 6)),
    (("Brightness", 0.9, 6), ("Color", 0.2, 8)),
    (("Solarize", 0.5, 2), ("Invert", 0.0, 0)),
    (("Equalize", 0.2, 0), ("AutoContrast", 0.6, 0)),
    (("Equalize", 0.2, 0), ("Equalize", 0.6, 0)),
    (("Color", 0.9, 9), ("Equalize", 0.6, 0)),
    (("AutoContrast", 0.8, 0), ("Solarize", 0.2, 8)),
    (("Brightness", 0.1, 3), ("Color", 0.7, 0)),
    (("Solarize", 0.4, 5), ("AutoContrast", 0.9, 0)),
    (("TranslateY", 0.9, 9), ("TranslateY", 0.7, 9)),
    (("AutoContrast", 0.9, 0), ("Solarize", 0.8, 3)),
    (("Equalize", 0.8, 0), ("Invert", 0.1, 0)),
    (("TranslateY", 0.7, 9), ("AutoContrast", 0.9, 0)),
)


@AUGMENTATIONS.register("autoaugment")
def autoaugment(variant: Variant = "torchvision") -> Augmentation:
    """AutoAugment's CIFAR-10 policy.

    `"torchvision"`: the magnitude is the m-th of ten steps, its sign is random, warps take the nearest pixel.
    `"binned"`: the magnitude is uniform between the m-th and the next of eleven points that run from the negative to
    the positive end, so that m fixes the sign; warps interpolate with cubic splines.
    """
    return Augmentation(functools.partial(_autoaugment, variant), 5)


@AUGMENTATIONS.register("cifar")
def cifar(pad: int = 4, flip: float = 0.5, variant: Variant = "torchvision") -> Augmentation:
    """Crop, flip, then AutoAugment: what the FedVLS paper trains CIFAR-10 and CIFAR-100 with."""
    return crop_flip(pad=pad, flip=flip).then(autoaugment(variant=variant))


@AUGMENTATIONS.register("tiny")
def tiny(variant: Variant = "torchvision") -> Augmentation:
    """AutoAugment alone: what the FedVLS paper trains TinyImageNet with."""
    return autoaugment(variant=variant)


class Entries(NamedTuple):
    """The policy as tensors `[25, 2]`: the magnitude of an operation is `start + stretch * v`.

    v is a random sign for `"torchvision"` and a uniform number for `"binned"`.
    """

    code: Tensor
    probability: Tensor
    start: Tensor
    stretch: Tensor


def magnitude(variant: Variant, operation: str, m: int, height: int, width: int) -> tuple[float, float]:
    """`(start, stretch)` of one operation at magnitude index m, in the operation's own unit."""
    if operation in ("AutoContrast", "Equalize", "Invert"):
        return 0.0, 0.0
    if operation == "Posterize":
        return (8.0 - round(m * 4 / 9), 0.0) if variant == "torchvision" else (4 + 0.4 * m, 0.4)
    if operation == "Solarize":
        return (_of_ten(255, 0, m), 0.0) if variant == "torchvision" else (25.6 * m, 25.6)
    enhances = operation in ("Brightness", "Color", "Contrast", "Sharpness")
    reach = {"TranslateX": 150 / 331 * width, "TranslateY": 150 / 331 * height, "Rotate": 30.0}
    most, centre = (0.9, 1.0) if enhances else (reach.get(operation, 0.3), 0.0)
    return (centre, _of_ten(0, most, m)) if variant == "torchvision" else (centre + most * (m - 5) / 5, most / 5)


def _of_ten(first: float, last: float, m: int) -> float:
    """The m-th of ten equal steps, in float32 as torchvision has it: a factor's last bit shows in the pixels."""
    start, stop = np.float32(first), np.float32(last)
    step = (stop - start) / np.float32(9)
    return float(start + step * np.float32(m) if m < 5 else stop - step * np.float32(9 - m))


@functools.cache
def entries(variant: Variant, height: int, width: int, device: torch.device) -> Entries:
    """The policy for images of this size; made once per device, since a captured graph cannot copy from the host."""
    rows = [[(CODES[o], p, *magnitude(variant, o, m, height, width)) for o, p, m in pair] for pair in CIFAR10]
    code, *rest = torch.tensor(rows, dtype=torch.float64).unbind(-1)
    return Entries(code.long().to(device), *(part.contiguous().to(device) for part in rest))


def decode(variant: Variant, u: Tensor, height: int, width: int) -> list[tuple[Tensor, Tensor]]:
    """What the numbers `u[B, 5]` decide: operation codes and magnitudes `[B]`, for the first and the second operation.

    Column 0 chooses the sub-policy, 1 and 2 whether its operations are applied, 3 and 4 their signs or magnitudes.
    """
    policy = entries(variant, height, width, u.device)
    u = u.double()
    chosen = pick(u[:, 0], len(CIFAR10))
    code, probability, start, stretch = (part.index_select(0, chosen) for part in policy)
    applied, v = u[:, 1:3] < probability, u[:, 3:5]
    if variant == "torchvision":
        v = torch.where(v < 0.5, -1.0, 1.0)
    code, size = torch.where(applied, code, UNCHANGED), start + stretch * v
    return [(code[:, slot], size[:, slot]) for slot in (0, 1)]


def _autoaugment(variant: Variant, x: Tensor, u: Tensor) -> Tensor:
    steps = decode(variant, u, *x.shape[2:])
    return operate(x, steps, nearest if variant == "torchvision" else cubic_spline)
