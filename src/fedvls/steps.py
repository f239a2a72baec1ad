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
    """What a step may know beyond the gradient."""

    broadcast: Mapping[str, Tensor] = field(default_factory=dict)
    kept: Mapping[str, Tensor] = field(default_factory=dict)
    """What the client kept from its last participation."""
    leading: int = 0


@dataclass(frozen=True)
class Step:
    """A direction rule with its name and values."""

    direction: Callable[[Gradient, Tensors, StepContext], Tensors]
    passes: int = 1
    needs_rule: str | None = None
    """The server rule that sends what this step uses."""
    is_gradient: bool = False
    """Whether the direction is the gradient itself."""
    keeps_zeros: bool = False
    """Whether it is 0 wherever gradients are, and needs of what was sent only the same rows: then an engine may leave
    rows without a gradient out."""
    name: str = "custom"
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def spec(self) -> dict[str, Any]:
        return {"name": self.name, **self.values}


STEPS: Registry[Step] = Registry("step")


@STEPS.register("sgd")
def sgd() -> Step:
    """The gradient itself."""
    return Step(lambda gradient, point, context: gradient(point), is_gradient=True, keeps_zeros=True)


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

    return Step(direction, passes=2, keeps_zeros=True)


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

    return Step(direction, passes=2, needs_rule="direction-mean")


@STEPS.register("flatness")
def flatness(rho: float = 0.1, norm_eps: float = 1e-12) -> Step:
    """FedGF: the gradient at c * w~ + (1 - c) * (w + rho * g/||g||), w~ and c sent by the server rule `flatness-mean`.

    In the first round there is neither, and this is SAM.
    """
    if rho < 0:
        raise UsageError(f"flatness: rho = {rho} must be >= 0")

    def direction(gradient: Gradient, point: Tensors, context: StepContext) -> Tensors:
        first = gradient(point)
        local = _ascend(point, first, rho, norm_eps, context.leading)
        if "c" not in context.broadcast:
            return first if rho == 0 else gradient(local, False)
        c = context.broadcast["c"]
        mixed = {k: c * context.broadcast[f"perturbed/{k}"] + (1 - c) * v for k, v in local.items()}
        return gradient(mixed, False)

    return Step(direction, passes=2, needs_rule="flatness-mean", keeps_zeros=True)


@STEPS.register("controlled")
def controlled() -> Step:
    """SCAFFOLD: g - c_i + c, the client's own control variate replaced by the global one."""
    return _corrected("controlled-mean", ("control/", -1.0), ("control/", 1.0))


@STEPS.register("dynamic")
def dynamic() -> Step:
    """FedDyn: g - h_i, h_i the gradient the client kept (the pull toward the received model is a term)."""
    return _corrected("dynamic-mean", ("gradient/", -1.0), None)


def _corrected(rule: str, own: tuple[str, float], sent: tuple[str, float] | None) -> Step:
    """The gradient plus signed corrections that were kept or sent; absent ones are 0."""

    def direction(gradient: Gradient, point: Tensors, context: StepContext) -> Tensors:
        result = gradient(point)
        for source, correction in ((context.kept, own), (context.broadcast, sent)):
            if correction is None:
                continue
            prefix, sign = correction
            result = {k: g + sign * source[prefix + k] if prefix + k in source else g for k, g in result.items()}
        return result

    return Step(direction, needs_rule=rule)


def _ascend(point: Tensors, gradient: Tensors, rho: float, norm_eps: float, leading: int) -> Tensors:
    """w + rho * g / (||g|| + norm_eps), the norm over all tensors together and per leading index."""
    norm = joint_norm(gradient, leading)
    scale = rho / (norm + norm_eps)
    return {
        name: value + scale.reshape(scale.shape + (1,) * (value.dim() - leading)) * gradient[name]
        for name, value in point.items()
    }


def joint_norm(tensors: Mapping[str, Tensor], leading: int = 0) -> Tensor:
    """L2 norm over all trailing axes of all tensors, per leading index.

    Every sum is along the last axis: on a CPU its order, and so its last bits, do not depend on how many clients there
    are in front.
    """
    squares = [t.square().reshape(*t.shape[:leading], -1).sum(-1) for t in tensors.values()]
    return torch.stack(squares, -1).sum(-1).sqrt()
