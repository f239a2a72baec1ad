"""MoFedSAM's server: the mean, and the round's descent direction sent along."""

import pytest
import torch

from fedvls import mean
from fedvls.aggregation import direction_mean


def test_the_model_is_the_plain_mean(draw_round):
    inputs = draw_round([0.5, 0.5], steps=[3, 4])
    outputs, plain = direction_mean().combine(inputs), mean().combine(inputs)
    assert all(torch.equal(outputs.params[name], plain.params[name]) for name in inputs.start)


def test_the_direction_is_what_each_client_descended_per_step(draw_round, flat):
    # -sum_i w_i (w_i - w) / (K_i lr)
    inputs = draw_round([0.75, 0.25], steps=[10, 2], lr=0.05)
    sent = direction_mean().combine(inputs).broadcast
    assert list(sent) == [f"direction/{name}" for name in inputs.start]
    a, b = (flat(client) - flat(inputs.start) for client in inputs.clients)
    torch.testing.assert_close(flat(sent), -(0.75 * a / (10 * 0.05) + 0.25 * b / (2 * 0.05)))


def test_clients_that_follow_one_gradient_give_it_back(draw_round, flat):
    # K plain steps w <- w - lr g have direction g, whatever K.
    inputs = draw_round([1.0])
    gradient = {name: torch.full_like(tensor, 0.3) for name, tensor in inputs.start.items()}
    steps, lr = [1, 5, 20], 0.01
    clients = [{name: w - lr * k * gradient[name] for name, w in inputs.start.items()} for k in steps]
    uneven = type(inputs)(inputs.start, clients, [0.2, 0.3, 0.5], steps=steps, lr=lr)
    torch.testing.assert_close(flat(direction_mean().combine(uneven).broadcast), flat(gradient))


def test_a_client_without_a_step_divides_by_no_zero(draw_round):
    inputs = draw_round([0.5, 0.5], steps=[0, 3])
    assert all(tensor.isfinite().all() for tensor in direction_mean().combine(inputs).broadcast.values())


def test_the_direction_has_the_models_type(draw_round):
    inputs = draw_round([0.5, 0.5], steps=[1, 1], dtype=torch.float32)
    assert {tensor.dtype for tensor in direction_mean().combine(inputs).broadcast.values()} == {torch.float32}


def test_steps_must_be_told_for_every_client(draw_round):
    with pytest.raises(ValueError, match="zip"):
        direction_mean().combine(draw_round([0.5, 0.5], steps=[1]))
