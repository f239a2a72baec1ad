"""What every round does once its updates are there, in the simulator and in a deployment alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .aggregation import BufferPolicy, ServerInputs, ServerOutputs, client_weights, combine_buffers
from .engines.base import Update
from .method import Method
from .programs import Group


def aggregate(
    method: Method, group: Group, updates: Sequence[Update], total: int, buffers: BufferPolicy
) -> tuple[Group, ServerOutputs]:
    """The group with its next model: the method's rule for parameters, the policy for buffers.

    updates: by ascending client id; total: samples of all of the group's clients, taking part or not.
    """
    start = group.model
    weights = client_weights([u.samples for u in updates], group.weights, total)
    outputs = method.server.combine(
        ServerInputs(
            start=start.params,
            clients=[u.state.params for u in updates],
            weights=weights,
            state=group.state,
            sent=[u.sent for u in updates],
            steps=[u.steps for u in updates],
            broadcast=group.broadcast,
            population=len(group.clients),
            lr=group.recipe.lr,
            momentum=group.recipe.momentum,
            epochs=group.recipe.epochs,
        )
    )
    averaged = combine_buffers([u.state.buffers for u in updates], weights, start.buffers, buffers)
    model = start.updated({**outputs.params, **averaged})
    return replace(group, model=model, state=dict(outputs.state), broadcast=dict(outputs.broadcast)), outputs


def round_record(
    round: int,
    seen: Mapping[str, Any],
    cohort: Sequence[int],
    left_out: Sequence[int],
    updates: Sequence[Update],
    metrics: Mapping[str, float],
) -> dict[str, Any]:
    """The line of metrics.jsonl. seen: what the evaluation says; updates: those that count."""
    return {
        "round": round,
        **seen,
        "cohort": list(cohort),
        "left_out": list(left_out),
        "train_loss": sum(u.loss * u.samples for u in updates) / sum(u.samples for u in updates),
        "server": dict(metrics),
    }
