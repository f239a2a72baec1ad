"""FedGF's server: a perturbed global model and a mixing weight for the clients (Lee and Yoon, ICML 2024)."""

from __future__ import annotations

import logging
from typing import Literal

import torch

from ..errors import UsageError
from ..flat import square_norms
from .base import SERVER_RULES, ServerInputs, ServerOutputs, ServerRule

log = logging.getLogger("fedvls")
SATURATED = 5  # rounds with c = 1 from the start after which a run is told so


@SERVER_RULES.register("flatness-mean")
def flatness_mean(
    rho: float = 0.1, threshold: float = 0.3, mode: Literal["auto", "adaptive", "fixed"] = "auto", window: int = 30
) -> ServerRule:
    """Weighted mean;  sends w~ = w_new + rho * G/||G||, G = w_old - w_new, and the mixing weight c.

    adaptive: c = share of the last `window` rounds whose divergence D = mean_i ||w - w_i|| exceeded `threshold`.
    fixed: c = threshold. auto: adaptive with one local epoch, fixed otherwise, because D is an absolute length that any
    longer local training exceeds: c would become 1 and every local gradient be taken at one fixed point.
    """
    if mode != "adaptive" and threshold > 1:
        raise UsageError(f"flatness-mean: threshold = {threshold} is the mixing weight unless adaptive: at most 1")
    if window < 1 or rho < 0 or threshold < 0:
        raise UsageError(
            f"flatness-mean: rho = {rho}, threshold = {threshold} >= 0 and window = {window} >= 1 are needed"
        )

    def combine(inputs: ServerInputs) -> ServerOutputs:
        params, deltas = inputs.mean(), inputs.deltas()
        back = {k: inputs.start[k].double() - params[k].double() for k in params}
        *each, together = square_norms([*deltas, back])
        divergence = sum(norm**0.5 for norm in each) / len(deltas)
        before = inputs.state.get("window", torch.zeros(0))
        now = torch.cat([before, torch.tensor([float(divergence > threshold)])])[-window:]
        adaptive = mode == "adaptive" or (mode == "auto" and inputs.epochs == 1)
        c = float(now.mean()) if adaptive else threshold
        from_the_start = len(now) == min(window, SATURATED) > len(before)
        full_again = len(now) == window and (len(before) < window or before.min() == 0)
        if adaptive and now.min() == 1 and (from_the_start or full_again):
            log.warning(
                "flatness-mean: the divergence exceeded threshold %g in each of the last %d rounds, so c = 1 and local "
                "gradients are all taken at one point; raise the threshold (fedgf's c_o) or fix c (c_mode=fixed)",
                threshold,
                len(now),
            )
        length = together**0.5
        scale = rho / length if length > 0 else 0.0
        broadcast = {f"perturbed/{k}": (v.double() + scale * back[k]).to(v.dtype) for k, v in params.items()}
        some = next(iter(params.values()))
        broadcast["c"] = torch.tensor(c, dtype=some.dtype, device=some.device)
        return ServerOutputs(params, {"window": now}, broadcast, {"divergence": divergence, "c": c})

    return ServerRule(combine)
