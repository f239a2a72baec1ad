"""Augmentation of uint8 images where they already are, from random numbers drawn beforehand."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..data.federated import FederatedData
from ..errors import UsageError
from .augmentation import AUGMENTATIONS, Augmentation, draws
from .crops import crop, crop_flip, flip, none
from .policy import autoaugment, cifar, tiny

__all__ = [
    "AUGMENTATIONS",
    "Augmentation",
    "autoaugment",
    "choose_augmentation",
    "cifar",
    "crop",
    "crop_flip",
    "draws",
    "flip",
    "get_augmentation",
    "none",
    "tiny",
]


# The paper's recipes. MNIST, digits and text are used as they are.
OF_DATA_SET = {"cifar10": "cifar", "cifar100": "cifar", "tiny-imagenet": "tiny"}


def choose_augmentation(given: str | Mapping[str, Any] | Augmentation, data: FederatedData) -> Augmentation:
    """The augmentation to train with; "auto" is the paper's for this data set, and none for data it does not know."""
    if isinstance(given, Augmentation):
        chosen = given
    else:
        values = {"name": given} if isinstance(given, str) else dict(given)
        if values.get("name", "auto") == "auto":
            values["name"] = OF_DATA_SET.get(data.name, "none")
        chosen = _from_spec(values)
    if chosen.width > 0 and (data.x_train.dtype != np.uint8 or len(data.sample_shape) != 3):
        raise UsageError(
            f"augmentation {chosen.name!r} needs uint8 images (channels, height, width); {data.name} has samples of "
            f"type {data.x_train.dtype} and shape {data.sample_shape}"
        )
    return chosen


def _from_spec(spec: Mapping[str, Any]) -> Augmentation:
    """The augmentation of a config section; one made with `then` lists its parts."""
    if "parts" in spec:
        return functools.reduce(Augmentation.then, [_from_spec(part) for part in spec["parts"]])
    return get_augmentation(str(spec["name"]), **{k: v for k, v in spec.items() if k != "name"})


def get_augmentation(name: str, **values: Any) -> Augmentation:
    """The augmentation of this name, e.g. `get_augmentation("crop-flip", pad=2)`."""
    return AUGMENTATIONS.build(name, **values)
