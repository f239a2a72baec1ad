"""Weights of clients, and their weighted mean."""

import itertools

import pytest
import torch

from fedvls import mean
from fedvls.aggregation import client_weights, weighted_mean


def test_selected_weights_are_shares_of_the_cohorts_samples():
    assert client_weights([50, 30, 20], "selected", total=1000) == [0.5, 0.3, 0.2]


def test_weights_over_all_data_leave_a_rest():
    # Algorithm 1 of the FedVLS paper: n_i / |D|.
    assert client_weights([50, 30, 20], "all", total=1000) == [0.05, 0.03, 0.02]


def test_uniform_weights_count_every_client_alike():
    assert client_weights([50, 30, 20, 900], "uniform", total=1000) == [0.25] * 4


def test_both_policies_agree_under_full_participation():
    assert client_weights([50, 30, 20], "all", total=100) == client_weights([50, 30, 20], "selected", total=100)


def test_the_mean_is_the_weighted_sum(draw_round, flat):
    inputs = draw_round([0.5, 0.3, 0.2])
    a, b, c = map(flat, inputs.clients)
    torch.testing.assert_close(flat(mean().combine(inputs).params), 0.5 * a + 0.3 * b + 0.2 * c)


def test_what_the_weights_leave_stays_with_the_model_sent_out(draw_round, flat):
    inputs = draw_round([0.3, 0.2])
    a, b = map(flat, inputs.clients)
    expected = 0.5 * flat(inputs.start) + 0.3 * a + 0.2 * b
    torch.testing.assert_close(flat(mean().combine(inputs).params), expected)


def test_weights_that_sum_to_one_take_nothing_of_the_start():
    # Ten times 0.1 is not 1 in binary; the difference must not let a NaN start through.
    weights = [0.1] * 10
    assert sum(weights) != 1
    result = weighted_mean([{"w": torch.ones(2)}] * 10, weights, {"w": torch.full((2,), torch.nan)})
    torch.testing.assert_close(result["w"], torch.ones(2))


def test_a_single_client_is_taken_over_to_the_bit(draw_round):
    inputs = draw_round([1.0], dtype=torch.float32)
    result = mean().combine(inputs).params
    assert all(torch.equal(result[name], inputs.clients[0][name]) for name in inputs.start)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_result_has_the_models_type_shapes_and_order_of_names(draw_round, dtype):
    inputs = draw_round([0.5, 0.5], dtype=dtype)
    result = mean().combine(inputs).params
    assert list(result) == list(inputs.start)
    for name, tensor in result.items():
        assert tensor.dtype == dtype
        assert tensor.shape == inputs.start[name].shape


def test_sums_run_in_float64():
    # In float32 the 1 would be lost beside 2^24 twice over: (2^24 + 1) + (-2^24) is 0 or 2 there.
    clients = [{"w": torch.tensor([value])} for value in (2.0**24, 1.0, -(2.0**24))]
    result = weighted_mean(clients, [1 / 3] * 3, {"w": torch.zeros(1)})
    assert float(result["w"]) == pytest.approx(1 / 3, rel=1e-6)


def test_the_order_of_clients_matters_in_the_last_bit_at_most(draw_round, flat):
    # A tie between two float32 numbers can fall either way; runs therefore always add in the order of client ids.
    inputs = draw_round([0.4, 0.3, 0.2, 0.1], dtype=torch.float32)
    results = [
        flat(weighted_mean([inputs.clients[i] for i in order], [inputs.weights[i] for i in order], inputs.start))
        for order in itertools.permutations(range(4))
    ]
    for result in results[1:]:
        torch.testing.assert_close(result, results[0], rtol=2**-23, atol=0)


def test_nothing_given_is_written_to(draw_round):
    inputs = draw_round([0.3, 0.2])
    before = [{k: v.clone() for k, v in tensors.items()} for tensors in (inputs.start, *inputs.clients)]
    mean().combine(inputs)
    for then, now in zip(before, (inputs.start, *inputs.clients), strict=True):
        assert all(torch.equal(then[name], now[name]) for name in then)


def test_deltas_are_the_clients_moves_in_float64(draw_round, flat):
    inputs = draw_round([0.5, 0.5], dtype=torch.float32)
    for delta, client in zip(inputs.deltas(), inputs.clients, strict=True):
        assert all(tensor.dtype == torch.float64 for tensor in delta.values())
        assert torch.equal(flat(delta), flat(client) - flat(inputs.start))
