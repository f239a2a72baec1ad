"""Means of the clients' models, plain and extrapolated."""

from __future__ import annotations

from ..errors import UsageError
from ..flat import square_norms
from .base import SERVER_RULES, ServerInputs, ServerOutputs, ServerRule


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
        average = inputs.weighted(deltas)
        *each, together = square_norms([*deltas, average])
        spread = sum(w * norm for w, norm in zip(inputs.weights, each, strict=True))
        length = together + eps * (len(deltas) if scale_eps else 1)
        eta = max(1.0, spread / (2 * length)) if length > 0 else 1.0
        params = inputs.mean() if eta == 1.0 else inputs.moved(average, eta)  # eta 1: the plain mean, to the bit
        if not evaluate_average_of_last_two:
            return ServerOutputs(params, metrics={"eta": eta})
        halfway = {k: ((v.double() + inputs.start[k].double()) / 2).to(v.dtype) for k, v in params.items()}
        return ServerOutputs(params, metrics={"eta": eta}, evaluated=halfway)

    return ServerRule(combine)


@SERVER_RULES.register("direction-mean")
def direction_mean() -> ServerRule:
    """Weighted mean, and the round's mean descent direction -sum_i w_i d_i / (K_i lr) sent along (MoFedSAM)."""

    def combine(inputs: ServerInputs) -> ServerOutputs:
        scale = [w / (max(k, 1) * inputs.lr) for w, k in zip(inputs.weights, inputs.steps, strict=True)]
        total = inputs.weighted(inputs.deltas(), scale)
        direction = {f"direction/{k}": (-total[k]).to(v.dtype) for k, v in inputs.start.items()}
        return ServerOutputs(inputs.mean(), broadcast=direction)

    return ServerRule(combine)
