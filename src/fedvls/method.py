"""A method is a value: objective x step x server rule. Combining methods is replacing a part."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from .aggregation import SERVER_RULES, ServerRule, mean
from .errors import UsageError
from .exchange import Exchange
from .losses.checks import checked_inputs
from .losses.term import NEEDS, Objective, Parameters, Term, as_objective
from .models.adapt import Adapt
from .programs.base import Program
from .registry import Registry
from .steps import STEPS, Step, sgd


@dataclass(frozen=True)
class Method:
    """How a client trains and how the server combines: everything that tells one method from another.

    objective: a sum of terms; step: how a gradient becomes a direction; server: how updates become the next model.
    Few methods need more: exchange: what clients send and keep beyond the model; adapt: a change to the model itself
    (MOON's projection head); program: who shares a model in which round.
    `name` and `values` are filled in by the registry.
    """

    objective: Objective | Term
    step: Step = field(default_factory=sgd)
    server: ServerRule = field(default_factory=mean)
    exchange: Exchange | None = None
    adapt: Adapt | None = None
    program: Program = field(default_factory=Program)
    name: str = "custom"
    values: Mapping[str, Any] = field(default_factory=dict)
    replaced: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        # A term of weight 0 is not computed: mu = 0, lam = 0, beta = 0 give FedAvg's bits and need no teacher.
        terms = as_objective(self.objective).terms
        kept = tuple(t for t in terms if t.weight != 0)
        object.__setattr__(self, "objective", Objective(kept or terms[:1]))
        if self.step.needs_rule not in (None, self.server.name):
            raise UsageError(
                f"step {self.step.name!r} needs the server rule {self.step.needs_rule!r}, not {self.server.name!r}"
            )
        if self.server.needs_exchange not in (None, self.exchange.name if self.exchange else "no exchange"):
            raise UsageError(
                f"server rule {self.server.name!r} needs clients that send {self.server.needs_exchange}: "
                "start from the method that has them and replace its other parts"
            )

    def with_(
        self, *, objective: Objective | Term | None = None, step: Step | None = None, server: ServerRule | None = None
    ) -> Method:
        """The same method with a part replaced: `fedvls().with_(step=sam(rho=0.1))` is FedVLS+FedSAM."""
        parts = {"objective": objective, "step": step, "server": server}
        given: dict[str, Any] = {key: part for key, part in parts.items() if part is not None}
        return replace(self, **given, replaced=self.replaced | given.keys())

    @property
    def needs(self) -> frozenset[str]:
        """What the objective needs from the engine beyond logits, labels and counts."""
        return as_objective(self.objective).needs

    @property
    def spec(self) -> dict[str, Any]:
        """Name, values and replaced parts: what rebuilds this method (see `from_spec`)."""
        spec: dict[str, Any] = {"name": self.name, **self.values}
        for part in ("step", "server"):
            if part in self.replaced:
                spec[part] = getattr(self, part).spec
        if "objective" in self.replaced:
            spec["objective"] = [term.name for term in as_objective(self.objective).terms]
        return spec

    @property
    def describe(self) -> dict[str, Any]:
        """Every part with all its values, for the run header."""
        terms = as_objective(self.objective).terms
        return {
            **self.spec,
            "objective": " + ".join(t.name if t.weight == 1 else f"{t.weight:g} * {t.name}" for t in terms),
            "step": self.step.spec,
            "server": self.server.spec,
            "program": self.program.spec,
            "exchanged": self.exchanged,
        }

    @property
    def exchanged(self) -> dict[str, str]:
        """What travels and what clients keep beyond the model."""
        if self.exchange is None:
            return {"up": "nothing", "down": "nothing", "kept": "nothing"}
        return {"up": self.exchange.up, "down": self.exchange.down, "kept": self.exchange.kept}

    def loss(
        self,
        *,
        logits: Tensor,
        labels: Tensor,
        counts: Any = None,
        teacher_logits: Tensor | None = None,
        sample_mask: Tensor | None = None,
        features: Tensor | None = None,
        teacher_features: Tensor | None = None,
        previous_features: Tensor | None = None,
        params: Parameters | None = None,
        teacher_params: Parameters | None = None,
        received: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """This method's objective, for anyone's own training loop.

        logits[..., B, C], labels[..., B]; counts[..., C] are the client's class counts over its whole data (default:
        every class present alike); teacher_* come from the model the server sent, previous_features from the client's
        own model of its last participation (MOON; None at the first), received is what the server sent beside the
        model (FPL's prototypes). Returns one loss per leading index.
        """
        return as_objective(self.objective)(
            checked_inputs(
                self.name,
                self.needs,
                logits=logits,
                labels=labels,
                counts=counts,
                sample_mask=sample_mask,
                teacher_logits=teacher_logits,
                features=features,
                teacher_features=teacher_features,
                previous_features=previous_features,
                params=params,
                teacher_params=teacher_params,
                received=received or {},
            )
        )


METHODS: Registry[Method] = Registry("method")


def register(
    name: str, *, title: str = "", venue: str = ""
) -> Callable[[Callable[..., Method]], Callable[..., Method]]:
    """Register a function that returns a `Method`: from then on `get_method`, configs and the command line know it."""

    def decorate(builder: Callable[..., Method]) -> Callable[..., Method]:
        if not builder.__module__.startswith("fedvls."):
            from . import methods  # noqa: F401  (so that a name of the package's is known to be taken)

        @functools.wraps(builder)
        def own_name(**values: Any) -> Method:
            # The name and values say all of it: parts replaced inside the builder need not be repeated in a config.
            return replace(builder(**values), replaced=frozenset())

        return METHODS.register(name, title=title or name, venue=venue)(own_name)

    return decorate


def get_method(name: str, **values: Any) -> Method:
    """The registered method, with the paper's hyperparameters unless values are given."""
    from . import methods  # noqa: F401  (importing the folder registers its methods)

    return METHODS.build(name, **values)


def from_spec(spec: Mapping[str, Any]) -> Method:
    """Rebuild a method from `Method.spec`, e.g. {"name": "fedvls", "lam": 0.1, "step": {"name": "sam"}}."""
    values = dict(spec)
    if "objective" in values:
        raise UsageError("a method whose objective was replaced in Python cannot be rebuilt from a config: register it")
    name = values.pop("name", None)
    if not isinstance(name, str):
        raise UsageError(f"method = {dict(spec)!r} has no name; give one, e.g. {{name: fedvls}}")
    parts: dict[str, Any] = {}
    for part, registry in (("step", STEPS), ("server", SERVER_RULES)):
        if part in values:
            chosen = dict(values.pop(part)) if isinstance(values[part], Mapping) else {"name": values.pop(part)}
            parts[part] = registry.build(chosen.pop("name", ""), **chosen)
    method = get_method(name, **values)
    return method.with_(**parts) if parts else method


__all__ = ["METHODS", "NEEDS", "Method", "from_spec", "get_method", "register"]
