"""Server optimizers: the mean update is a gradient for momentum or Adam (Hsu et al. 2019; Reddi et al., ICLR 2021)."""

from __future__ import annotations

import torch

from ..errors import UsageError
from .base import SERVER_RULES, ServerInputs, ServerOutputs, ServerRule


@SERVER_RULES.register("server-momentum")
def server_momentum(beta: float = 0.9, lr: float = 1.0) -> ServerRule:
    """FedAvgM: v <- beta * v + mean delta;  w <- w + lr * v."""
    _share("server-momentum", lr, beta=beta)

    def combine(inputs: ServerInputs) -> ServerOutputs:
        change = inputs.weighted(inputs.deltas())
        if beta == 0 and lr == 1:  # FedAvg, to the bit
            return ServerOutputs(inputs.mean())
        if inputs.state:
            change = {k: beta * inputs.state[f"velocity/{k}"].double() + d for k, d in change.items()}
        return ServerOutputs(inputs.moved(change, lr), {f"velocity/{k}": v for k, v in change.items()})

    return ServerRule(combine)


@SERVER_RULES.register("server-adam")
def server_adam(lr: float = 0.01, beta1: float = 0.9, beta2: float = 0.99, tau: float = 1e-3) -> ServerRule:
    """FedAdam: m, v from the mean delta;  w <- w + lr * m / (sqrt(v) + tau).

    As published: no bias correction, v starts at tau^2.
    """
    _share("server-adam", lr, beta1=beta1, beta2=beta2)
    if tau <= 0:
        raise UsageError(f"server-adam: tau = {tau} must be > 0")

    def combine(inputs: ServerInputs) -> ServerOutputs:
        state, change = {}, {}
        for k, delta in inputs.weighted(inputs.deltas()).items():
            m = inputs.state.get(f"m/{k}", torch.zeros_like(delta))
            v = inputs.state.get(f"v/{k}", torch.full_like(delta, tau**2))
            state[f"m/{k}"] = m = beta1 * m + (1 - beta1) * delta
            state[f"v/{k}"] = v = beta2 * v + (1 - beta2) * delta.square()
            change[k] = m / (v.sqrt() + tau)
        return ServerOutputs(inputs.moved(change, lr), state)

    return ServerRule(combine)


def _share(rule: str, lr: float, **values: float) -> None:
    if lr <= 0:
        raise UsageError(f"{rule}: lr = {lr} must be > 0")
    for name, value in values.items():
        if not 0 <= value < 1:
            raise UsageError(f"{rule}: {name} = {value} must be in [0, 1)")
