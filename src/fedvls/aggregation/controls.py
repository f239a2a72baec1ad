"""Server sides of SCAFFOLD and FedDyn: means that carry a correction from round to round."""

from __future__ import annotations

import torch

from ..errors import UsageError
from .base import SERVER_RULES, ServerInputs, ServerOutputs, ServerRule, sum_of, weighted_mean


@SERVER_RULES.register("controlled-mean")
def controlled_mean() -> ServerRule:
    """SCAFFOLD: weighted mean of the models;  c <- c + 1/N * sum_i (change of c_i), sent to the clients."""

    def combine(inputs: ServerInputs) -> ServerOutputs:
        broadcast = {}
        for k, start in inputs.start.items():
            before = inputs.broadcast.get(f"control/{k}", torch.zeros_like(start)).double()
            change = sum_of([sent[f"control_change/{k}"] for sent in inputs.sent])
            broadcast[f"control/{k}"] = (before + change / inputs.population).to(start.dtype)
        return ServerOutputs(inputs.mean(), broadcast=broadcast)

    return ServerRule(combine, needs_exchange="control variates")


@SERVER_RULES.register("dynamic-mean")
def dynamic_mean(alpha: float = 0.01) -> ServerRule:
    """FedDyn: h <- h - alpha/N * sum_i delta_i;  w <- uniform mean of the models - h / alpha."""
    if alpha <= 0:
        raise UsageError(f"dynamic-mean: alpha = {alpha} must be > 0")

    def combine(inputs: ServerInputs) -> ServerOutputs:
        deltas, count = inputs.deltas(), len(inputs.clients)
        average = weighted_mean(inputs.clients, [1 / count] * count, inputs.start)
        state, params = {}, {}
        for k, start in inputs.start.items():
            h = inputs.state.get(f"h/{k}", torch.zeros_like(start, dtype=torch.float64))
            state[f"h/{k}"] = h = h - alpha / inputs.population * sum_of([d[k] for d in deltas])
            params[k] = (average[k].double() - h / alpha).to(start.dtype)
        return ServerOutputs(params, state)

    return ServerRule(combine, needs_exchange="dynamic gradients")
