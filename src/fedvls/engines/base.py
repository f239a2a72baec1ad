"""The contract of every engine: `train(start, cohort, method, recipe, ...) -> updates`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import torch
from torch import Tensor

from ..errors import UsageError
from ..method import Method
from ..models.network import ModelState

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Recipe:
    """Local training: plain SGD with momentum, the optimizer fresh for every client and round."""

    epochs: int = 5
    batch_size: int = 64
    lr: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 1e-5
    persistent_momentum: bool = False
    """Keep momentum buffers between rounds although the weights were replaced: what the authors' program does for its
    baselines. For study only."""
    teacher_mode: Literal["eval", "train"] = "eval"
    """BatchNorm mode of the teacher; "train" (batch statistics) is the authors' program."""

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("batch_size", 1), ("lr", 0.0), ("momentum", 0.0), ("weight_decay", 0.0)):
            if not getattr(self, name) >= least:
                raise UsageError(f"{name} = {getattr(self, name)} must be >= {least}")


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

    @property
    def samples(self) -> int:
        return len(self.indices)


@dataclass(frozen=True)
class Update:
    """What a client sends back."""

    client: int
    samples: int
    steps: int
    loss: float
    """Mean of the objective over its minibatches."""
    state: ModelState
    kept: Tensors = field(default_factory=dict)

    def is_finite(self) -> bool:
        """Whether every floating tensor of the model is finite."""
        return all(bool(torch.isfinite(t).all()) for t in self.state.tensors().values() if t.is_floating_point())


class Engine(Protocol):
    """Trains a cohort. Every engine agrees with `sequential` within a stated tolerance."""

    name: str

    def train(
        self,
        start: ModelState,
        cohort: Sequence[ClientTask],
        method: Method,
        recipe: Recipe,
        *,
        seed: int,
        round: int,
        broadcast: Mapping[str, Tensor],
    ) -> list[Update]:
        """One update per task, in the order of `cohort`. `broadcast` is the server rule's state of last round."""
        ...
