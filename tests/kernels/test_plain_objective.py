"""Objectives written out in plain operations, as CPUs train with them: what autograd gives, to rounding."""

from __future__ import annotations

import pytest
import torch

from fedvls import kernels
from fedvls.kernels.plain_objective import PlainObjective
from fedvls.losses.term import as_objective
from kernels import objectives
from kernels.objectives import CPU, drawn


@pytest.mark.parametrize("name", objectives.OBJECTIVES)
def test_a_cpu_computes_by_formula(name):
    """So that the tests below test the formulas."""
    assert isinstance(kernels.objective(as_objective(objectives.OBJECTIVES[name]).terms, CPU), PlainObjective)


@pytest.mark.parametrize(
    "claim",
    [
        objectives.terms,
        objectives.shapes,
        objectives.extremes,
        objectives.padding,
        objectives.not_numbers,
        objectives.coverage,
    ],
    ids=lambda claim: claim.__name__,
)
def test_value_and_slope_are_those_of_autograd(claim):
    claim()


@pytest.mark.parametrize("name", objectives.OBJECTIVES)
def test_what_it_is_given_stays_as_it_was(name):
    """It computes in place, but not in anybody else's place."""

    batch = drawn(4, 12, 10, torch.float64)
    given = batch.inputs
    tensors = {
        "logits": given.logits,
        "teacher": given.teacher_logits,
        "labels": given.labels,
        "mask": given.sample_mask,
    }
    before = {key: tensor.clone() for key, tensor in tensors.items()}
    written_out = kernels.objective(as_objective(objectives.OBJECTIVES[name]).terms, CPU)
    first, second = (written_out(given, given.logits) for _ in range(2))
    assert all(torch.equal(tensor, before[key]) for key, tensor in tensors.items())
    assert all(torch.equal(mine, again) for mine, again in zip(first, second, strict=True))
