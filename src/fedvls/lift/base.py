"""A network whose tensors carry a leading client axis, so that one kernel serves a whole cohort."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from torch import Tensor

Tensors = dict[str, Tensor]
Padding = Literal["any", "partial", "none"]


@dataclass(frozen=True)
class Forward:
    """The outcome of a forward pass of K clients with B samples each."""

    logits: Tensor
    """`[K, B, C]`, float32 or better, detached."""
    features: Tensor | None
    """`[K, B, d]`, the classifier's input, likewise; None where it was not asked for."""
    saved: Any
    """What the backward pass of the same network needs."""


class Lifted(Protocol):
    """K networks of one architecture, trained at once. Nothing here is recorded by autograd: the objective is
    differentiated with respect to logits (and features) alone, and `backward` takes it from there."""

    padding: Padding
    """Which minibatches may be padded: "any", the "partial" ones at the end of an epoch (at some cost), or "none".
    Padding counts in no statistic and no gradient."""

    uncounted: frozenset[str]
    """BatchNorm's counters of batches that `forward` leaves as they are; the caller adds the number of steps."""

    embedding: str | None
    """The first parameter, `[V, d]`, if the inputs are numbers of its rows and nothing else reads them: then the rows
    a minibatch has are enough for it, in any order, inputs renumbered; but 0, which is padding, stays 0."""

    def width(self, samples: int) -> int:
        """How wide a minibatch of so many samples is best made, where any may be padded."""
        ...

    def forward(
        self, params: Tensors, buffers: Tensors, x: Tensor, rows: Tensor | None, *, features: bool, statistics: bool
    ) -> Forward:
        """Train mode. params and buffers `[K, ...]` by their names in the module, x `[K, B, ...]`, rows `[K]` int32 the
        number of real samples (None: all are); running statistics move in place, inside `buffers`, if `statistics`.
        Dropout takes its masks from the clients' keys `[K, 2]`, for which the caller sees to `models.dropout.keyed`."""
        ...

    def backward(self, forward: Forward, d_logits: Tensor, d_features: Tensor | None, into: Tensors) -> None:
        """Write (not add) the gradients of all trainable parameters into the tensors `[K, ...]` given by name."""
        ...
