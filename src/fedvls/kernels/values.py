"""The values that pass between the layers of a network with a client axis.

Activations are `[K, B, H, W, C]`; a convolution's output is kept raw, and the BatchNorm behind it is applied by whoever
reads it: `normal` `[K, 4, C]` holds scale, shift, mean and inverse deviation, with relu(scale * y + shift) the layer's
output.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from torch import Tensor

Tensors = dict[str, Tensor]


class Raw(NamedTuple):
    """A convolution's output and the BatchNorm behind it."""

    y: Tensor
    normal: Tensor


class Statistics(NamedTuple):
    """What tiles of a convolution's output say of it: mean, sum of squared deviations, number of real positions."""

    values: Tensor
    """`[K, T, 2, C]`"""
    counts: Tensor
    """`[K, T]`"""


class Delta(NamedTuple):
    """The gradient of a convolution's output through its BatchNorm: dy = c0 g + c1 y + c2, coefficients `[K, 3, C]`."""

    g: Tensor
    y: Tensor
    coefficients: Tensor


class Parts(NamedTuple):
    """A weight's gradient in parts, still to be added: whatever is launched next can take that along."""

    values: Tensor
    """`[K, S, O, columns]`"""
    into: Tensor
    """Where the sum over S goes, `[K, ...]`; of the columns the first ones."""


@dataclass(frozen=True)
class Source:
    """The input of a pointwise convolution, seen from its backward pass."""

    x: Tensor
    """Raw output of the unit before it if `normal` is given, else the activations themselves."""
    normal: Tensor | None
    made_by: tuple[Raw, ...]
    """The units whose BatchNorms receive the input's gradient: one, or two where a shortcut was added, or none."""
    relu: bool
    """Whether a ReLU stands between them and this input."""


class Tracked(NamedTuple):
    """BatchNorm's buffers of all clients, moved in place."""

    mean: Tensor
    var: Tensor
    batches: Tensor | None


class Operations(Protocol):
    """The arithmetic of a network, once in Triton and once in plain PyTorch. Samples beyond `rows[k]` are padding:
    they are not read, and count in no statistic and no gradient."""

    def rehearse(self, run: Callable[[], object]) -> None:
        """Prepare for what `run` will do, perhaps by running it without computing anything."""
        ...

    def weights(self, params: Tensors, columns: dict[str, int]) -> Tensors:
        """Convolution weights in the compute type, as matrices `[K, O, columns]`, zero beyond their own numbers."""
        ...

    def patches(self, x: Tensor, columns: int, rows: Tensor) -> Tensor:
        """3x3 neighbourhoods of images `[K, B, C, H, W]`: `[K, B, H, W, columns]`, zero beyond 9 C."""
        ...

    def pointwise(self, x: Tensor, w: Tensor, normal: Tensor | None, rows: Tensor) -> tuple[Tensor, Statistics]:
        """A 1x1 convolution of x, through BatchNorm and ReLU first if `normal` is given."""
        ...

    def depthwise(self, x: Tensor, w: Tensor, normal: Tensor, stride: int, rows: Tensor) -> tuple[Tensor, Statistics]:
        """A 3x3 convolution of each channel by itself, padding 1, behind BatchNorm and ReLU."""
        ...

    def normalise(
        self,
        statistics: Statistics,
        rows: Tensor,
        gamma: Tensor,
        beta: Tensor,
        tracked: Tracked | None,
        eps: float,
        momentum: float,
    ) -> Tensor:
        """`normal` of a layer; running statistics move where given."""
        ...

    def joined(self, unit: Raw, relu: bool, shortcut: Tensor | Raw | None, rows: Tensor) -> Tensor:
        """A block's output."""
        ...

    def pooled(self, unit: Raw, rows: Tensor) -> Tensor:
        """Mean of relu(normalised y) over the positions, `[K, B, C]` in float32 or better; zero for padding."""
        ...

    def pooled_backward(self, d_features: Tensor, unit: Raw, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Gradient of the unit's output before ReLU, and its sums `[K, T, 2, C]` (of g, and of g (y - mean))."""
        ...

    def moments(
        self,
        sums: Tensor,
        which: int,
        g: Tensor,
        unit: Raw,
        rows: Tensor,
        into: tuple[Tensor, Tensor],
        left: Parts | None = None,
    ) -> Delta:
        """The gradient through a BatchNorm; those of gamma and beta are written, and a gradient `left` in parts is
        added. which: 1, or 2 for a shortcut's."""
        ...

    def summed(self, left: Parts) -> None:
        """Adds a gradient left in parts."""
        ...

    def pointwise_backward(
        self, delta: Delta, w: Tensor, source: Source, rows: Tensor, into: Tensor, residual: Tensor | None, wanted: bool
    ) -> tuple[Tensor, Tensor, Parts | None]:
        """If `wanted`, the input's gradient (residual added, ReLU applied) and its sums `[K, T, 1 + len(made_by), C]`;
        the weights' gradient is written or left in parts."""
        ...

    def depthwise_backward(
        self, delta: Delta, w: Tensor, source: Raw, stride: int, rows: Tensor, into: Tensor
    ) -> tuple[Tensor, Tensor, Parts | None]:
        """The input's gradient, behind its ReLU, and its sums; the weights' is written or left in parts."""
        ...
