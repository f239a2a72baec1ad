"""Which updates are finite: asked of a whole cohort at once, answered for each client."""

from __future__ import annotations

import math

import pytest
import torch

from fedvls.engines.base import Update, are_finite
from fedvls.models.network import ModelState


def update(client, weight=1.0, running=0.0, sent=0.0):
    """Two parameters, a BatchNorm statistic, its counter, and something sent beside the model."""
    params = {"a": torch.ones(3, 2), "b": torch.tensor([0.5, weight])}
    buffers = {"mean": torch.tensor([running, 0.0]), "count": torch.tensor(2**62)}
    return Update(
        client,
        5,
        1,
        5,
        0.1,
        ModelState(params, {}, buffers),
        sent={"control": torch.tensor([sent], dtype=torch.float64)},
    )


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["weight", "running", "sent"])
def test_one_value_leaves_out_its_client_and_no_other(value, where):
    updates = [update(0), update(1, **{where: value}), update(2)]
    assert are_finite(updates) == [True, False, True]
    assert [u.is_finite() for u in updates] == [True, False, True]


@pytest.mark.parametrize("value", [3e38, -3e38])
def test_a_value_whose_square_overflows_is_finite(value):
    assert are_finite([update(0), update(1, weight=value), update(2, sent=value * 1e200)]) == [True, True, True]


def test_nobody_sent_anything():
    assert are_finite([]) == []
    assert are_finite([Update(0, 5, 1, 5, 0.1, ModelState({}, {}, {}))]) == [True]
