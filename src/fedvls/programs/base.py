"""Who shares a model in which round. Nearly every method is "all clients, every round"; the rest are programs.

The round loop lives in `loop.py` and knows groups only: a program says which groups there are, what changes
between rounds, which model to evaluate, and what is done once at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from ..aggregation import WeightPolicy
from ..data.resident import ResidentData
from ..models.network import ModelState, Network
from ..partition import Split
from ..recipe import Recipe

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Setting:
    """What a program may know of the run."""

    network: Network
    start: ModelState
    split: Split
    data: ResidentData
    recipe: Recipe
    weights: WeightPolicy
    classes: int
    rounds: int
    """Rounds that were asked for."""
    seed: int


@dataclass(frozen=True)
class Group:
    """Clients that share a model, and the model."""

    clients: frozenset[int]
    network: Network
    model: ModelState
    recipe: Recipe
    weights: WeightPolicy
    state: Tensors = field(default_factory=dict)
    """What the server rule remembers."""
    broadcast: Tensors = field(default_factory=dict)
    """What is sent beside the model."""


@dataclass(frozen=True)
class Program:
    """All clients share one model in every round."""

    def total_rounds(self, asked: int) -> int:
        """Rounds the program takes when `asked` are asked for."""
        return asked

    def groups(self, setting: Setting, round: int) -> list[Group]:
        """The groups of the stage that `round` belongs to, as they are at its start (a resumed run fills them)."""
        everyone = frozenset(range(setting.split.clients))
        return [Group(everyone, setting.network, setting.start, setting.recipe, setting.weights)]

    def advance(self, setting: Setting, round: int, groups: list[Group]) -> list[Group]:
        """Called before every round after the first."""
        return groups

    def shown(self, setting: Setting, groups: Sequence[Group]) -> tuple[Network, ModelState]:
        """The model to evaluate and to return."""
        return groups[0].network, groups[0].model

    def finish(self, setting: Setting, groups: list[Group]) -> list[Group]:
        """Called once, after the last round."""
        return groups

    @property
    def spec(self) -> dict[str, Any]:
        """What the header tells."""
        return {"name": "rounds"}
