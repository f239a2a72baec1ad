"""FedNova: updates divided by what their number of steps amounts to (Wang et al., NeurIPS 2020)."""

from __future__ import annotations

from .base import SERVER_RULES, ServerInputs, ServerOutputs, ServerRule


def effective_steps(steps: int, momentum: float) -> float:
    """a = sum_{t=1..K} (1 - m^t) / (1 - m): how far K unit gradients move SGD with momentum m from rest. K if m = 0."""
    if momentum == 0:
        return float(steps)
    return (steps - momentum * (1 - momentum**steps) / (1 - momentum)) / (1 - momentum)


@SERVER_RULES.register("normalised-mean")
def normalised_mean() -> ServerRule:
    """w <- w + (sum_i p_i a_i) * sum_i p_i delta_i / a_i, a_i the effective number of local steps."""

    def combine(inputs: ServerInputs) -> ServerOutputs:
        effective = [effective_steps(k, inputs.momentum) for k in inputs.steps]
        together = sum(w * a for w, a in zip(inputs.weights, effective, strict=True))
        if len(set(effective)) == 1:  # everybody took the same number of steps: FedAvg, to the bit
            return ServerOutputs(inputs.mean(), metrics={"effective_steps": together})
        shares = [w / a for w, a in zip(inputs.weights, effective, strict=True)]
        change = inputs.weighted(inputs.deltas(), shares)
        return ServerOutputs(inputs.moved(change, together), metrics={"effective_steps": together})

    return ServerRule(combine)
