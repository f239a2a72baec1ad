"""BatchNorm's statistics follow a policy of their own; counters have no mean."""

import pytest
import torch

from fedvls.aggregation import combine_buffers

START = {
    "running_mean": torch.tensor([0.0, 0.0]),
    "num_batches_tracked": torch.tensor(3),
    "seen": torch.tensor([False, False, True]),
}
CLIENTS = [
    {
        "running_mean": torch.tensor([1.0, 2.0]),
        "num_batches_tracked": torch.tensor(10),
        "seen": torch.tensor([True, False, True]),
    },
    {
        "running_mean": torch.tensor([5.0, 6.0]),
        "num_batches_tracked": torch.tensor(7),
        "seen": torch.tensor([False, False, True]),
    },
]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("average", [0.75 * 1 + 0.25 * 5, 0.75 * 2 + 0.25 * 6]),
        ("uniform", [3.0, 4.0]),
        ("keep", [0.0, 0.0]),
    ],
)
def test_floating_statistics_follow_the_policy(policy, expected):
    result = combine_buffers(CLIENTS, [0.75, 0.25], START, policy)
    assert result["running_mean"].tolist() == expected
    assert result["running_mean"].dtype == torch.float32


@pytest.mark.parametrize(("policy", "expected"), [("average", 10), ("uniform", 10), ("keep", 3)])
def test_counters_take_the_maximum_and_stay_whole(policy, expected):
    result = combine_buffers(CLIENTS, [0.75, 0.25], START, policy)
    assert result["num_batches_tracked"].dtype == torch.int64
    assert int(result["num_batches_tracked"]) == expected


def test_flags_stay_flags():
    result = combine_buffers(CLIENTS, [0.75, 0.25], START, "average")
    assert result["seen"].dtype == torch.bool
    assert result["seen"].tolist() == [True, False, True]


def test_weights_over_all_data_leave_a_rest_of_the_statistics_too():
    result = combine_buffers(CLIENTS, [0.3, 0.1], {**START, "running_mean": torch.tensor([10.0, 10.0])}, "average")
    torch.testing.assert_close(result["running_mean"], torch.tensor([6 + 0.3 + 0.5, 6 + 0.6 + 0.6]))


@pytest.mark.parametrize("policy", ["average", "uniform", "keep"])
def test_names_and_their_order_are_kept(policy):
    assert list(combine_buffers(CLIENTS, [0.75, 0.25], START, policy)) == list(START)


@pytest.mark.parametrize("policy", ["average", "uniform", "keep"])
def test_a_model_without_buffers_has_none_afterwards(policy):
    assert combine_buffers([{}, {}], [0.75, 0.25], {}, policy) == {}


def test_the_order_of_clients_does_not_matter():
    forward = combine_buffers(CLIENTS, [0.75, 0.25], START, "average")
    backward = combine_buffers(CLIENTS[::-1], [0.25, 0.75], START, "average")
    assert all(torch.equal(forward[name], backward[name]) for name in START)
