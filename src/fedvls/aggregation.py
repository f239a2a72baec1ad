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

from .errors import UsageError
from .registry import Registry

Tensors = dict[str, Tensor]
BufferPolicy = Literal["average", "uniform", "keep"]
WeightPolicy = Literal["selected", "all"]


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
    steps: Sequence[int] = ()
    """Optimizer steps each client took."""
    lr: float = 0.01

    def mean(self) -> Tensors:
        """(1 - sum w_i) * start + sum_i w_i * client_i."""
        return weighted_mean(self.clients, self.weights, self.start)

    def deltas(self) -> list[Tensors]:
        """client_i - start, in float64."""
        return [{k: v.double() - self.start[k].double() for k, v in client.items()} for client in self.clients]


@dataclass(frozen=True)
class ServerOutputs:
    """The next global parameters, the rule's state (sent to clients and checkpointed), numbers to log."""

    params: Tensors
    state: Tensors = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    evaluated: Tensors | None = None
    """Parameters to evaluate, where they are not `params`."""


@dataclass(frozen=True)
class ServerRule:
    """An aggregation rule with its name and values."""

    combine: Callable[[ServerInputs], ServerOutputs]
    name: str = "custom"
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def spec(self) -> dict[str, Any]:
        return {"name": self.name, **self.values}


SERVER_RULES: Registry[ServerRule] = Registry("server rule")


@SERVER_RULES.register("mean")
def mean() -> ServerRule:
    """Weighted mean of the clients' models (FedAvg)."""
    return ServerRule(lambda inputs: ServerOutputs(inputs.mean()))


@SERVER_RULES.register("extrapolated")
def extrapolated(eps: float = 0.01, scale_eps: bool = False, evaluate_average_of_last_two: bool = False) -> ServerRule:
    """FedExP: w + eta * mean delta, eta = max(1, sum_i p_i ||d_i||^2 / (2 (||mean d||^2 + eps))).

    scale_eps multiplies eps by the number of participants, evaluate_average_of_last_two evaluates the mean of the last
    two iterates: both as in the method's own code, both off in the FedVLS paper's protocol.
    """
    if eps < 0:
        raise UsageError(f"extrapolated: eps = {eps} must be >= 0")

    def combine(inputs: ServerInputs) -> ServerOutputs:
        deltas = inputs.deltas()
        average = {
            k: torch.stack([w * d[k] for w, d in zip(inputs.weights, deltas, strict=True)]).sum(0) for k in inputs.start
        }
        spread = sum(w * _square_norm(d) for w, d in zip(inputs.weights, deltas, strict=True))
        length = _square_norm(average) + eps * (len(deltas) if scale_eps else 1)
        eta = max(1.0, spread / (2 * length)) if length > 0 else 1.0
        if eta == 1.0:  # the plain mean, to the bit
            params = inputs.mean()
        else:
            params = {k: (v.double() + eta * average[k]).to(v.dtype) for k, v in inputs.start.items()}
        if not evaluate_average_of_last_two:
            return ServerOutputs(params, metrics={"eta": eta})
        halfway = {k: ((v.double() + inputs.start[k].double()) / 2).to(v.dtype) for k, v in params.items()}
        return ServerOutputs(params, metrics={"eta": eta}, evaluated=halfway)

    return ServerRule(combine)


@SERVER_RULES.register("direction-mean")
def direction_mean() -> ServerRule:
    """Weighted mean, and the round's mean descent direction -sum_i w_i d_i / (K_i lr) sent along (MoFedSAM)."""

    def combine(inputs: ServerInputs) -> ServerOutputs:
        state: Tensors = {}
        scale = [w / (max(k, 1) * inputs.lr) for w, k in zip(inputs.weights, inputs.steps, strict=True)]
        deltas = inputs.deltas()
        for name, start in inputs.start.items():
            total = torch.stack([s * d[name] for s, d in zip(scale, deltas, strict=True)]).sum(0)
            state[f"direction/{name}"] = (-total).to(start.dtype)
        return ServerOutputs(inputs.mean(), state)

    return ServerRule(combine)


def client_weights(samples: Sequence[int], policy: WeightPolicy, total: int) -> list[float]:
    """n_i over the participating clients ("selected") or over all clients' data ("all", the paper's Algorithm 1)."""
    whole = sum(samples) if policy == "selected" else total
    return [n / whole for n in samples]


def weighted_mean(
    states: Sequence[Mapping[str, Tensor]], weights: Sequence[float], start: Mapping[str, Tensor]
) -> Tensors:
    """sum_i w_i * state_i, plus what the weights leave to 1 of `start`, in float64."""
    rest = 1.0 - sum(weights)
    result: Tensors = {}
    for name, before in start.items():
        total = torch.zeros_like(before, dtype=torch.float64)
        if rest > 1e-9:
            total += rest * before.double()
        for weight, state in zip(weights, states, strict=True):
            total += weight * state[name].double()
        result[name] = total.to(before.dtype)
    return result


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


def _square_norm(tensors: Mapping[str, Tensor]) -> float:
    return float(sum(float(t.double().square().sum()) for t in tensors.values()))
