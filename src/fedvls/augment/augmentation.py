"""What an augmentation is (`Augmentation`), where its random numbers come from (`draws`), and the registry."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import rng
from ..errors import UsageError
from ..registry import Registry

Apply = Callable[[Tensor, Tensor], Tensor]

# Images at a time on a CPU: more would leave its cache, fewer would pay more for the calls than for the work.
BLOCK = 1024


@dataclass(frozen=True)
class Augmentation:
    """A pure function of uint8 images `x[B, C, H, W]` and uniform numbers `u[B, width]` in [0, 1).

    Row b of `u` decides everything about image b, and nothing else does: an augmented image depends on neither its
    place in the batch nor its neighbours. Nothing is drawn inside `apply`, and on an accelerator it never waits for
    the host, so that a captured CUDA graph can replay it with new numbers. `x` itself is left as it is.
    """

    apply: Apply
    width: int
    name: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def spec(self) -> dict[str, Any]:
        """Name and values: what rebuilds a registered augmentation with `get_augmentation`."""
        return {"name": self.name, **self.values}

    def __call__(self, x: Tensor, u: Tensor) -> Tensor:
        """`apply`, after a check of types and shapes; on a CPU block by block."""
        if x.dtype != torch.uint8 or x.ndim != 4:
            raise UsageError(
                f"augmentation {self.name!r}: images are {_described(x)}; they must be uint8 [samples, channels, "
                "height, width]"
            )
        if not u.is_floating_point() or tuple(u.shape) != (len(x), self.width):
            raise UsageError(
                f"augmentation {self.name!r}: random numbers are {_described(u)}; for these images they must be "
                f"floating point [{len(x)}, {self.width}]"
            )
        if x.device.type != "cpu" or len(x) <= BLOCK:
            return self.apply(x, u)
        blocks = [slice(start, start + BLOCK) for start in range(0, len(x), BLOCK)]
        return torch.cat([self.apply(x[block], u[block]) for block in blocks])

    def then(self, other: Augmentation) -> Augmentation:
        """This augmentation followed by another: the first columns of `u` are for this one, the rest for `other`."""
        return Augmentation(
            functools.partial(_one_after_another, self, other),
            self.width + other.width,
            name=f"{self.name}+{other.name}",
            values={"parts": [self.spec, other.spec]},
        )


AUGMENTATIONS: Registry[Augmentation] = Registry("augmentation")


def draws(augmentation: Augmentation, samples: int, *, seed: int, round: int, client: int, epoch: int) -> Tensor:
    """The numbers `u[samples, width]` for one epoch of one client in one round, as float32 on the host.

    The 53-bit numbers are cut, not rounded, to the 24 bits of a float32: rounding could give 1.0.
    """
    numbers = rng.uniform(rng.key(seed, "augment", round, client, epoch), (samples, augmentation.width))
    return torch.from_numpy((np.floor(numbers * 2.0**24) * 2.0**-24).astype(np.float32))


def pick(u: Tensor, n: int) -> Tensor:
    """A whole number in 0..n-1 for each uniform number, all equally likely."""
    return (u * n).long().clamp_(max=n - 1)


def _one_after_another(first: Augmentation, second: Augmentation, x: Tensor, u: Tensor) -> Tensor:
    return second.apply(first.apply(x, u[:, : first.width]), u[:, first.width :])


def _described(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
