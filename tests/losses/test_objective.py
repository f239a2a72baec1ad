"""Terms add up to objectives."""

import pytest
import torch

from fedvls import UsageError, term
from fedvls.losses import ClientStatistics, LossInputs, Objective, cross_entropy


def constant(name, value, *needs):
    return term(name, *needs)(lambda inputs: torch.tensor(float(value)))


@pytest.fixture
def inputs():
    labels = torch.tensor([0, 1])
    return LossInputs(torch.zeros(2, 2), labels, torch.tensor([True, False]), ClientStatistics(torch.ones(2)))


def test_an_objective_is_the_weighted_sum_of_its_terms(inputs):
    objective = constant("a", 2) + 0.5 * constant("b", 3) + (constant("c", 7) + 10 * constant("d", 1))
    assert float(objective(inputs)) == 2 + 1.5 + 7 + 10
    assert {name: float(value) for name, value in objective.parts(inputs).items()} == {"a": 2, "b": 3, "c": 7, "d": 1}
    assert [t.weight for t in objective.terms] == [1, 0.5, 1, 10]


def test_factors_multiply():
    assert (0.5 * (0.1 * constant("a", 1))).weight == pytest.approx(0.05)


def test_an_objective_needs_what_any_term_needs():
    objective = cross_entropy() + constant("a", 1, "features") + constant("b", 1, "params", "features")
    assert objective.needs == {"features", "params"}
    assert Objective((cross_entropy(),)).needs == frozenset()


def test_a_term_cannot_need_what_no_engine_provides():
    with pytest.raises(UsageError, match=r"term 'mine' needs 'gradients', which no engine provides; it may need teach"):
        term("mine", "gradients")


def test_the_batch_mean_is_over_real_samples(inputs):
    assert float(inputs.over_batch(torch.tensor([3.0, 1e9]))) == 3


def test_statistics_follow_from_counts():
    client = ClientStatistics(torch.tensor([6.0, 0.0, 3.0, 1.0]))
    assert client.vacant.tolist() == [False, True, False, False]
    assert client.prior.tolist() == pytest.approx([0.6, 0, 0.3, 0.1])
    assert client.majority.tolist() == [True, False, True, False]  # the mean is 2.5, vacant classes included


def test_a_count_equal_to_the_mean_is_not_a_majority():
    assert not ClientStatistics(torch.full((4,), 3.0)).majority.any()
