"""How the server turns clients' models into the next global model.

A server rule sees trainable parameters only. Buffers (BatchNorm statistics) follow their own policy and never enter a
norm or an extrapolation. Sums run in float64 in the order of client ids, so the result does not depend on arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from ..flat import copied, copy_each, flattened, unflattened
from ..registry import Registry

Tensors = dict[str, Tensor]
BufferPolicy = Literal["average", "uniform", "keep"]
WeightPolicy = Literal["selected", "all", "uniform"]


@dataclass(frozen=True)
class ServerInputs:
    """What a server rule sees of a round."""

    start: Tensors
    """Trainable parameters the clients started from."""
    clients: Sequence[Tensors]
    """Each client's trainable parameters, by ascending client id."""
    weights: Sequence[float]
    """Aggregation weights. They sum to 1, or to less under `weights="all"`; the rest stays with `start`."""
    state: Mapping[str, Tensor] = field(default_factory=dict)
    """What the rule returned as state last round."""
    sent: Sequence[Mapping[str, Tensor]] = ()
    """What each client sent beyond its model."""
    steps: Sequence[int] = ()
    """Optimizer steps each client took."""
    broadcast: Mapping[str, Tensor] = field(default_factory=dict)
    """What the rule sent along to the clients before this round."""
    population: int = 0
    """Number of all clients, taking part or not."""
    lr: float = 0.01
    momentum: float = 0.0
    epochs: int = 1

    def mean(self) -> Tensors:
        """(1 - sum w_i) * start + sum_i w_i * client_i."""
        return weighted_mean(self.clients, self.weights, self.start)

    def deltas(self) -> list[Tensors]:
        """client_i - start, in float64."""
        start, _ = flattened(self.start, torch.float64)
        clients = [flattened({k: client[k] for k in self.start}, torch.float64) for client in self.clients]
        for delta, _ in clients:
            delta -= start
        return [views for _, views in clients]

    def weighted(self, deltas: Sequence[Mapping[str, Tensor]], weights: Sequence[float] | None = None) -> Tensors:
        """sum_i w_i * delta_i, with the aggregation weights unless others are given."""
        chosen = list(self.weights if weights is None else weights)
        return {k: sum_of(torch._foreach_mul([d[k] for d in deltas], chosen)) for k in self.start}

    def moved(self, change: Mapping[str, Tensor], factor: float = 1.0) -> Tensors:
        """start + factor * change, in the model's dtype."""
        return {k: (v.double() + factor * change[k]).to(v.dtype) for k, v in self.start.items()}


@dataclass(frozen=True)
class ServerOutputs:
    """The next global parameters and what goes with them."""

    params: Tensors
    state: Tensors = field(default_factory=dict)
    """What the rule remembers; it stays on the server."""
    broadcast: Tensors = field(default_factory=dict)
    """What is sent to the clients beside the model."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Numbers for the log."""
    evaluated: Tensors | None = None
    """Parameters to evaluate, where they are not `params`."""


@dataclass(frozen=True)
class ServerRule:
    """An aggregation rule with its name and values."""

    combine: Callable[[ServerInputs], ServerOutputs]
    needs_exchange: str | None = None
    """Name of the exchange whose uploads this rule reads."""
    name: str = "custom"
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def spec(self) -> dict[str, Any]:
        return {"name": self.name, **self.values}


SERVER_RULES: Registry[ServerRule] = Registry("server rule")


def client_weights(samples: Sequence[int], policy: WeightPolicy, total: int) -> list[float]:
    """n_i over the participating clients ("selected") or over all clients' data ("all", the paper's Algorithm 1).

    "uniform" counts every participating client alike.
    """
    if policy == "uniform":
        return [1.0 / len(samples)] * len(samples)
    whole = sum(samples) if policy == "selected" else total
    return [n / whole for n in samples]


def weighted_mean(
    states: Sequence[Mapping[str, Tensor]], weights: Sequence[float], start: Mapping[str, Tensor]
) -> Tensors:
    """sum_i w_i * state_i, plus what the weights leave to 1 of `start`, in float64."""
    if not start:
        return {}
    rest = 1.0 - sum(weights)
    shares = [(rest, start)] if rest > 1e-9 else []
    share, places = flattened(start, torch.float64)
    total = torch.zeros_like(share)
    for weight, state in [*shares, *zip(weights, states, strict=True)]:
        copy_each(places, state)
        total += share.mul_(weight)
    return copied(unflattened(total, start), like=start)


def combine_buffers(
    states: Sequence[Mapping[str, Tensor]], weights: Sequence[float], start: Mapping[str, Tensor], policy: BufferPolicy
) -> Tensors:
    """Floating buffers averaged with the clients' weights ("average") or equally ("uniform"), or left as sent ("keep").

    Integer buffers are counters, which have no mean: they take the maximum.
    """
    if policy == "keep":
        return dict(start)
    if policy == "uniform":
        weights = [1.0 / len(states)] * len(states)
    floating = {k: v for k, v in start.items() if v.is_floating_point()}
    result = weighted_mean(states, weights, floating)
    for name in start.keys() - floating.keys():
        result[name] = torch.stack([state[name] for state in states]).amax(0)
    return {name: result[name] for name in start}


def sum_of(tensors: Sequence[Tensor]) -> Tensor:
    """The sum in float64, in the order given."""
    return torch.stack(list(tensors)).double().sum(0)
