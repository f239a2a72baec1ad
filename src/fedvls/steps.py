"""How a minibatch gradient becomes the direction that SGD (momentum, weight decay) then follows.

A step is a pure function of `gradient(point, update_statistics)`, so the same lines serve one client or a stack of
them, eager or captured. Norms run over all trainable parameters jointly, per client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from .errors import UsageError
from .registry import Registry

Tensors = dict[str, Tensor]


class Gradient(Protocol):
    """Gradient of the objective on this minibatch at `point`; BatchNorm statistics move only if asked."""

    def __call__(self, point: Tensors, update_statistics: bool = True) -> Tensors: ...


@dataclass(frozen=True)
class StepContext:
    """What a step may know beyond the gradient: what the server sent along, and the number of leading client axes."""

    broadcast: Mapping[str, Tensor] = field(default_factory=dict)
    leading: int = 0


@dataclass(frozen=True)
class Step:
    """A direction rule with its name and values."""

    direction: Callable[[Gradient, Tensors, StepContext], Tensors]
    passes: int = 1
    name: str = "custom"
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def spec(self) -> dict[str, Any]:
        return {"name": self.name, **self.values}


STEPS: Registry[Step] = Registry("step")


@STEPS.register("sgd")
def sgd() -> Step:
    """The gradient itself."""
    return Step(lambda gradient, point, context: gradient(point))


@STEPS.register("sam")
def sam(rho: float = 0.1, norm_eps: float = 1e-12, statistics: Literal["first", "both"] = "first") -> Step:
    """Sharpness-aware: the gradient at w + rho * g / (||g|| + norm_eps), same minibatch.

    Weight decay acts at w. BatchNorm statistics move in the first pass only; "both" is what several released programs
    do. rho = 0 takes the plain gradient, so that it equals SGD to the bit.
    """
    if rho < 0:
        raise UsageError(f"sam: rho = {rho} must be >= 0")

    def direction(gradient: Gradient, point: Tensors, context: StepContext) -> Tensors:
        first = gradient(point)
        if rho == 0:
            return first
        return gradient(_ascend(point, first, rho, norm_eps, context.leading), statistics == "both")

    return Step(direction, passes=2)


@STEPS.register("momentum-sam")
def momentum_sam(rho: float = 0.1, beta: float = 0.9, norm_eps: float = 1e-12) -> Step:
    """MoFedSAM: beta * (SAM gradient) + (1 - beta) * Delta, Delta the last round's mean descent direction.

    Delta comes from the server rule `direction-mean`; in the first round there is none and the SAM gradient is used.
    """
    if not 0 <= beta <= 1:
        raise UsageError(f"momentum-sam: beta = {beta} must lie in 0..1")
    inner = sam(rho, norm_eps)

    def direction(gradient: Gradient, point: Tensors, context: StepContext) -> Tensors:
        local = inner.direction(gradient, point, context)
        if not context.broadcast:
            return local
        return {
            name: beta * value + (1 - beta) * context.broadcast[f"direction/{name}"] for name, value in local.items()
        }

    return Step(direction, passes=2)


def _ascend(point: Tensors, gradient: Tensors, rho: float, norm_eps: float, leading: int) -> Tensors:
    """w + rho * g / (||g|| + norm_eps), the norm over all tensors together and per leading index."""
    norm = joint_norm(gradient, leading)
    scale = rho / (norm + norm_eps)
    return {
        name: value + scale.reshape(scale.shape + (1,) * (value.dim() - leading)) * gradient[name]
        for name, value in point.items()
    }


def joint_norm(tensors: Mapping[str, Tensor], leading: int = 0) -> Tensor:
    """L2 norm over all trailing axes of all tensors, per leading index."""
    squares = [t.square().reshape(*t.shape[:leading], -1).sum(-1) for t in tensors.values()]
    return torch.stack(squares).sum(0).sqrt()
