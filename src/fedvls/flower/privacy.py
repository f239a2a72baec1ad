"""Flower's differential-privacy wrappers around our strategy: what they may be used with.

Their noise is that of a mean of clipped updates with equal weights, added to the aggregate alone. So whatever else a
method computes from updates, or sends, would be seen without noise.
"""

from __future__ import annotations

from flwr.serverapp import strategy as flower
from flwr.serverapp.strategy import Strategy

from ..errors import UsageError
from ..models.network import ModelState
from .settings import Plan

PRIVATE = tuple(getattr(flower, name) for name in flower.__all__ if name.startswith("DifferentialPrivacy"))


def check_private(strategy: Strategy, plan: Plan, model: ModelState) -> None:
    """Refuse a combination whose noise would not mean what it says."""
    if not isinstance(strategy, PRIVATE):
        return
    method, weights = plan.method, plan.config.aggregation_weights
    if weights != "uniform":
        raise UsageError(
            f"aggregation_weights = {weights!r}: differential privacy is calibrated for sites of equal weight; "
            "set aggregation_weights = uniform"
        )
    if method.exchanged["up"] != "nothing" or method.server.name != "mean":
        raise UsageError(
            f"method {method.name!r} (server rule {method.server.name!r}) uses more of the updates than their mean, "
            "which differential privacy does not cover: use a method whose server rule is the mean"
        )
    for name, tensor in model.tensors().items():
        if not tensor.is_floating_point():
            raise UsageError(
                f"the model has the counter {name!r} (BatchNorm): Flower's clipping takes floating tensors only; use a "
                "model without BatchNorm"
            )
