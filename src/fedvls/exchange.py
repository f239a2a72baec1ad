"""What clients send and keep beyond the model, for the few methods that need it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch import Tensor

from .aggregation.normalised import effective_steps
from .flat import added, copied, scaled, subtracted, zeros
from .models.network import ModelState

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Outcome:
    """A client at the end of its local training."""

    start: ModelState
    """The model it received."""
    end: ModelState
    """The model it ends with: part of a whole cohort's memory, so what is kept of it is kept as a copy."""
    steps: int
    lr: float
    momentum: float
    kept: Mapping[str, Tensor] = field(default_factory=dict)
    """What it kept from its last participation."""
    broadcast: Mapping[str, Tensor] = field(default_factory=dict)
    """What the server sent beside the model."""
    feature_sums: Tensor | None = None
    """Per class, the sum of the features seen in the last epoch, `[C, d]` (only if asked for)."""
    feature_counts: Tensor | None = None

    def mean_gradient(self) -> Tensors:
        """(w_start - w_end) / (a lr), a the effective number of steps: the mean gradient along the path.

        Without momentum a is the number of steps and this is exact.
        """
        scale = 1.0 / (max(effective_steps(self.steps, self.momentum), 1.0) * self.lr) if self.lr > 0 else 0.0
        return scaled(scale, subtracted(self.start.params, self.end.params))


def _nothing(outcome: Outcome) -> tuple[Tensors, Tensors]:
    return {}, {}


@dataclass(frozen=True)
class Exchange:
    """`finish(outcome)` returns what the client keeps and what it sends beyond its model; the words tell people."""

    finish: Callable[[Outcome], tuple[Tensors, Tensors]] = _nothing
    up: str = "nothing"
    down: str = "nothing"
    kept: str = "nothing"
    collects_features: bool = False
    name: str = "nothing"


def _named(kind: str, tensors: Tensors) -> Tensors:
    """Under `kind/name`, as they are kept and sent."""
    return {f"{kind}/{name}": tensor for name, tensor in tensors.items()}


def _unnamed(kind: str, given: Mapping[str, Tensor], like: Tensors) -> Tensors:
    """Those under `kind/name`; 0 where there are none yet."""
    nothing = zeros({name: t for name, t in like.items() if f"{kind}/{name}" not in given})
    return {name: nothing[name] if name in nothing else given[f"{kind}/{name}"] for name in like}


def keep_model() -> Exchange:
    """MOON: the client keeps the model it ends with."""

    def finish(outcome: Outcome) -> tuple[Tensors, Tensors]:
        return _named("previous", copied(outcome.end.tensors())), {}

    return Exchange(finish, kept="its last local model")


def control_variates() -> Exchange:
    """SCAFFOLD, option II: c_i <- c_i - c + (w - w_i)/(K lr); the change of c_i is sent."""

    def finish(outcome: Outcome) -> tuple[Tensors, Tensors]:
        gradient = outcome.mean_gradient()
        own, everyone = (_unnamed("control", given, gradient) for given in (outcome.kept, outcome.broadcast))
        now = added(subtracted(own, everyone), gradient)
        return _named("control", now), _named("control_change", subtracted(now, own))

    return Exchange(
        finish,
        up="change of its control variate",
        down="global control variate",
        kept="its own one",
        name="control variates",
    )


def dynamic_gradient(alpha: float) -> Exchange:
    """FedDyn: h_i <- h_i - alpha (w_i - w)."""

    def finish(outcome: Outcome) -> tuple[Tensors, Tensors]:
        start, end = outcome.start.params, outcome.end.params
        own = _unnamed("gradient", outcome.kept, start)
        return _named("gradient", subtracted(own, scaled(alpha, subtracted(end, start)))), {}

    return Exchange(finish, kept="its accumulated gradient", name="dynamic gradients")


def class_prototypes() -> Exchange:
    """FPL: the mean feature of each class over the last local epoch."""

    def finish(outcome: Outcome) -> tuple[Tensors, Tensors]:
        assert outcome.feature_sums is not None
        assert outcome.feature_counts is not None
        present = outcome.feature_counts > 0
        means = outcome.feature_sums / outcome.feature_counts.clamp(min=1).unsqueeze(-1)
        return {}, {"prototypes": means, "present": present}

    return Exchange(
        finish,
        up="a prototype per class it has (so which classes it has)",
        down="clustered prototypes",
        collects_features=True,
        name="class prototypes",
    )
