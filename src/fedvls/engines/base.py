"""The contract of every engine: `train(job, cohort) -> updates`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from ..evaluation import Evaluation
from ..exchange import Outcome
from ..method import Method
from ..models.network import ModelState
from ..recipe import Recipe

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class RoundJob:
    """What every client of a cohort is given in a round."""

    start: ModelState
    """The model they train from."""
    method: Method
    recipe: Recipe
    seed: int
    round: int
    broadcast: Mapping[str, Tensor] = field(default_factory=dict)
    """What the server sends beside the model."""


@dataclass(frozen=True)
class ClientTask:
    """One client's share of a round."""

    client: int
    indices: Tensor
    """Positions of its samples in the training set, int64 on the device."""
    counts: Tensor
    """Its class counts, floating."""
    kept: Mapping[str, Tensor] = field(default_factory=dict)
    """What it kept from its last participation."""
    hears_teacher: bool = True
    """Whether what a teacher says of its samples can make a difference to its loss; if not, it need not be asked."""

    @property
    def samples(self) -> int:
        return len(self.indices)


@dataclass(frozen=True)
class Update:
    """What a client sends back."""

    client: int
    samples: int
    steps: int
    seen: int
    """Samples that passed forward and backward."""
    loss: float
    """Mean of the objective over its minibatches."""
    state: ModelState
    kept: Tensors = field(default_factory=dict)
    """What the client keeps for its next participation."""
    sent: Tensors = field(default_factory=dict)
    """What it sends beside its model."""

    def is_finite(self) -> bool:
        """Whether every floating tensor it sends is finite."""
        return are_finite([self])[0]


def are_finite(updates: Sequence[Update]) -> list[bool]:
    """Whether every floating tensor that each of them sends is finite.

    Asked of all tensors together, because a GPU is waited for at every question. A norm is what is computed fastest;
    one that overflows though no entry is infinite is looked into.
    """
    sent = [(k, t) for k, u in enumerate(updates) for t in (*u.state.tensors().values(), *u.sent.values())]
    floating = [(k, t) for k, t in sent if t.is_floating_point() and t.numel()]
    norms = torch.stack(torch._foreach_norm([t for _, t in floating])).tolist() if floating else []
    doubtful = [pair for pair, norm in zip(floating, norms, strict=True) if not math.isfinite(norm)]
    bad = {k for k, t in doubtful if not t.isfinite().all()}
    return [k not in bad for k in range(len(updates))]


def finished(
    job: RoundJob,
    task: ClientTask,
    trained: ModelState,
    loss: float,
    steps: int,
    seen: int,
    kept: Tensors,
    features: tuple[Tensor | None, Tensor | None] = (None, None),
) -> Update:
    """The update of a client that has trained, with what its method keeps and sends beyond the model."""
    sent: Tensors = {}
    if job.method.exchange is not None:
        recipe = job.recipe
        outcome = Outcome(job.start, trained, steps, recipe.lr, recipe.momentum, task.kept, job.broadcast, *features)
        own, sent = job.method.exchange.finish(outcome)
        kept = {**kept, **own}
    return Update(task.client, task.samples, steps, seen, loss, trained, kept, sent)


def mean_loss(losses: Sequence[Tensor]) -> float:
    """Over a client's minibatches."""
    return float(torch.stack(list(losses)).mean())


class Engine(Protocol):
    """Trains a cohort. Every engine agrees with `sequential` within a stated tolerance."""

    name: str

    def train(self, job: RoundJob, cohort: Sequence[ClientTask]) -> list[Update]:
        """One update per task, in the order of `cohort`."""
        ...

    def close(self) -> None:
        """Give back what the engine holds beyond memory (worker processes); it is not used afterwards."""


@runtime_checkable
class Evaluator(Engine, Protocol):
    """An engine that evaluates too, faster than one model after another where the run is; to the same bits."""

    def evaluate(self, states: Sequence[ModelState], classes: int) -> list[Evaluation]:
        """Each model of the engine's network on the whole test set."""
        ...
