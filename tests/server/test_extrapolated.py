"""FedExP's server: a longer step where clients disagree, and never a longer step for BatchNorm's statistics."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import batch_norm_net, hand_made

from fedvls import Federation, ServerInputs, ServerOutputs, ServerRule, extrapolated, get_method, mean
from fedvls.aggregation import client_weights
from fedvls.models import Network


def eta_of(start, clients, weights, eps, flat):
    """The formula on flattened models."""
    deltas = torch.stack([flat(client) - flat(start) for client in clients])
    weights = torch.tensor(weights, dtype=torch.float64)
    spread, length = weights @ deltas.square().sum(1), (weights @ deltas).square().sum()
    return max(1.0, float(spread / (2 * (length + eps))))


@given(
    weights=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    eps=st.sampled_from([0.0, 1e-3, 0.1, 10.0]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=50, deadline=None)
def test_the_step_is_the_formulas(draw_round, flat, weights, eps, seed):
    inputs = draw_round([w / sum(weights) for w in weights], seed)
    outputs = extrapolated(eps=eps).combine(inputs)
    eta = eta_of(inputs.start, inputs.clients, inputs.weights, eps, flat)
    assert outputs.metrics == {"eta": pytest.approx(eta)}
    step = flat(mean().combine(inputs).params) - flat(inputs.start)
    torch.testing.assert_close(flat(outputs.params), flat(inputs.start) + eta * step)
    assert outputs.evaluated is None


def test_identical_clients_are_averaged_to_the_bit(draw_round):
    one = draw_round([1.0], dtype=torch.float32)
    inputs = ServerInputs(one.start, [one.clients[0]] * 3, [0.5, 0.3, 0.2])
    outputs, plain = extrapolated(eps=0.0).combine(inputs), mean().combine(inputs)
    assert outputs.metrics["eta"] == 1.0
    assert all(torch.equal(outputs.params[name], plain.params[name]) for name in one.start)


def test_clients_that_did_not_move_leave_the_model_as_it_is(draw_round):
    start = draw_round([1.0]).start
    outputs = extrapolated(eps=0.0).combine(ServerInputs(start, [start, start], [0.5, 0.5]))
    assert outputs.metrics["eta"] == 1.0
    assert all(torch.equal(outputs.params[name], start[name]) for name in start)


def test_opposed_clients_are_stopped_by_eps_alone():
    # Moves +1 and -1 cancel: 1 / (2 * (0 + eps)).
    clients = [{"w": torch.tensor([1.0])}, {"w": torch.tensor([-1.0])}]
    inputs = ServerInputs({"w": torch.zeros(1)}, clients, [0.5, 0.5])
    assert extrapolated(eps=0.01).combine(inputs).metrics["eta"] == pytest.approx(50)
    assert extrapolated(eps=0.01, scale_eps=True).combine(inputs).metrics["eta"] == pytest.approx(25)
    assert extrapolated(eps=0.0).combine(inputs).metrics["eta"] == 1.0


def test_the_average_of_the_last_two_models_is_evaluated_and_not_kept(draw_round, flat):
    inputs = draw_round([0.5, 0.3, 0.2])
    plain = extrapolated(eps=0.01).combine(inputs)
    averaging = extrapolated(eps=0.01, evaluate_average_of_last_two=True).combine(inputs)
    assert torch.equal(flat(averaging.params), flat(plain.params))
    torch.testing.assert_close(flat(averaging.evaluated), (flat(plain.params) + flat(inputs.start)) / 2)


def test_the_order_of_clients_does_not_matter(draw_round, flat):
    inputs = draw_round([0.4, 0.3, 0.2, 0.1])
    turned = ServerInputs(inputs.start, inputs.clients[::-1], inputs.weights[::-1])
    first, second = (extrapolated().combine(i) for i in (inputs, turned))
    assert first.metrics["eta"] == pytest.approx(second.metrics["eta"], rel=1e-12)
    torch.testing.assert_close(flat(first.params), flat(second.params), rtol=0, atol=1e-12)


def test_a_run_shows_the_server_rule_no_batch_norm_statistics(stripes, flat):
    # A released program put them in: num_batches_tracked then rules both norms and pins eta at 1.
    seen = []

    def spy(inputs: ServerInputs) -> ServerOutputs:
        seen.append(inputs)
        return extrapolated(eps=1e-4).combine(inputs)

    federation = Federation(
        stripes, partition=hand_made(range(40), range(40, 80), range(80, 120)), clients=3, model=batch_norm_net()
    )
    method = get_method("fedexp", eps=1e-4).with_(server=ServerRule(spy))
    result = federation.run(method, rounds=1, epochs=2, out=None)
    (inputs,) = seen
    trainable = dict(batch_norm_net().named_parameters())
    assert inputs.start.keys() == trainable.keys()
    assert all(client.keys() == trainable.keys() for client in inputs.clients)
    eta = result.records[0]["server"]["eta"]
    assert eta == pytest.approx(eta_of(inputs.start, inputs.clients, inputs.weights, 1e-4, flat))
    assert eta > 1.05


def test_counters_among_the_parameters_would_have_pinned_it(flat):
    network = Network(batch_norm_net(), classes=5)
    start = network.start(torch.device("cpu"), torch.float64)
    random = torch.Generator().manual_seed(0)
    # Ten clients that moved in random directions and took 500 to 560 steps each.
    clients = [
        start.updated(
            {name: p + torch.randn(p.shape, generator=random, dtype=p.dtype) for name, p in start.params.items()}
            | {name: b + 500 + 6 * i for name, b in start.buffers.items() if name.endswith("tracked")}
        )
        for i in range(10)
    ]
    weights = client_weights([10] * 10, "selected", total=100)
    ours = extrapolated().combine(ServerInputs(start.params, [c.params for c in clients], weights))
    theirs = extrapolated().combine(ServerInputs(start.tensors(), [c.tensors() for c in clients], weights))
    # Orthogonal moves of equal length: ||d||^2 / (2 ||d||^2 / 10) = 5.
    assert ours.metrics["eta"] == pytest.approx(5, rel=0.1)
    assert theirs.metrics["eta"] == 1.0
