"""Who takes part in a round, and what clients keep."""

import pytest
import torch

from fedvls import UsageError
from fedvls.clients import ClientStates, cohort_size, sample_cohort


@pytest.mark.parametrize(
    ("clients", "participation", "size"),
    [
        (10, 1.0, 10),
        (10, 0.5, 5),
        (10, 0.3, 3),  # 0.3 * 10 is 3.0000000000000004 or 2.99..., by the order of the product
        (100, 0.29, 29),  # 0.29 * 100 is 28.999999999999996
        (1000, 0.57, 570),  # 569.9999999999999
        (10, 0.39, 3),
        (10, 0.01, 1),
        (3, 0.3, 1),
        (1, 0.001, 1),
    ],
)
def test_a_cohort_is_the_floor_of_the_share_and_at_least_one(clients, participation, size):
    assert cohort_size(clients, participation) == size
    assert len(sample_cohort(clients, participation, seed=0, round=1)) == size


@pytest.mark.parametrize("participation", [0, -0.1, 1.01, float("nan"), float("inf")])
def test_a_share_outside_zero_to_one_is_refused(participation):
    with pytest.raises(UsageError) as caught:
        sample_cohort(10, participation, seed=0, round=1)
    expected = f"participation = {participation} must be in (0, 1]: the share of clients in each round"
    assert str(caught.value) == expected


def test_a_cohort_is_distinct_and_ascending():
    for round in range(1, 50):
        cohort = sample_cohort(20, 0.4, seed=0, round=round)
        assert cohort == sorted(set(cohort))
        assert all(type(client) is int and 0 <= client < 20 for client in cohort)


def test_full_participation_draws_nothing():
    assert sample_cohort(5, 1.0, seed=0, round=1) == sample_cohort(5, 1.0, seed=9, round=7) == [0, 1, 2, 3, 4]


def test_a_cohort_is_a_function_of_seed_and_round():
    whole = [sample_cohort(30, 0.2, seed=3, round=r) for r in range(1, 11)]
    assert [sample_cohort(30, 0.2, seed=3, round=r) for r in range(10, 0, -1)] == whole[::-1]
    assert len({tuple(cohort) for cohort in whole}) > 1
    assert [sample_cohort(30, 0.2, seed=4, round=r) for r in range(1, 11)] != whole


def test_every_client_is_drawn_equally_often_over_the_rounds():
    # 3 of 10 in 2000 rounds: 600 times each, with a deviation of sqrt(2000 * 0.3 * 0.7) = 20.5.
    rounds = [sample_cohort(10, 0.3, seed=0, round=r) for r in range(1, 2001)]
    for client in range(10):
        assert sum(client in cohort for cohort in rounds) == pytest.approx(600, abs=103)


def test_clients_keep_nothing_until_they_put_something():
    states = ClientStates()
    assert states.get(4) == {}
    states.put(4, {})
    assert list(states.items()) == []


def test_what_clients_keep_comes_back_by_ascending_id():
    states = ClientStates({7: {"m": torch.ones(1)}})
    states.put(2, {"m": torch.zeros(1)})
    states.put(7, {"m": torch.full((1,), 5.0)})
    assert [client for client, _ in states.items()] == [2, 7]
    assert float(states.get(7)["m"]) == 5.0
