"""What travels between server and sites, looked at as it is on the wire."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from flwr.app import Context, RecordDict
from flwr.serverapp.strategy import FedAvg

import fedvls
from deploy.loopback import FIRST, Loopback, deploy, node_configs, settings
from fedvls.flower import client_app, server_app
from fedvls.flower.messages import EVALUATE_METRICS, TRAIN_METRICS, to_record


def numbers_in(content: RecordDict) -> set[float]:
    """Every number outside the arrays."""
    found: set[float] = set()
    for record in (*content.metric_records.values(), *content.config_records.values()):
        for value in record.values():
            found |= set(value) if isinstance(value, list) else {value}
    return found


def test_a_client_sends_the_state_dict_the_sample_count_and_the_declared_metrics_and_nothing_else(tmp_path):
    config = settings(tmp_path / "run", **{"server.evaluate_every": 1})
    grid = Loopback(client_app(), node_configs(3, tmp_path), config)
    deploy(server_app(), grid)
    federation = fedvls.Federation("digits", partition=fedvls.dirichlet(beta=0.1), clients=3)
    state_dict = federation.network.prototype.state_dict()
    trained = [m for m in grid.up if m.content.array_records]
    evaluated = [m for m in grid.up if not m.content.array_records]
    assert len(trained) == len(evaluated) == 6  # three sites, two rounds
    for message in trained:
        assert set(message.content) == {"arrays", "metrics"}
        arrays = message.content["arrays"]
        assert list(arrays) == list(state_dict)
        assert all(tuple(arrays[k].shape) == tuple(t.shape) for k, t in state_dict.items())
        metrics = message.content["metrics"]
        assert tuple(metrics) == TRAIN_METRICS == ("num-examples", "site", "steps", "seen", "train-loss")
        site = metrics["site"]
        assert metrics["num-examples"] == federation.split.sizes[site]
        assert metrics["seen"] == federation.split.sizes[site]  # one epoch
    for message in evaluated:
        assert set(message.content) == {"metrics"}
        assert tuple(message.content["metrics"]) == EVALUATE_METRICS


def test_class_counts_do_not_leave_a_site(tmp_path):
    """A site with a count that occurs nowhere else: neither it nor the number of its classes is in what it sends."""
    data = fedvls.load_dataset("digits")
    keep = np.concatenate([np.flatnonzero(data.y_train == 3)[:97], np.flatnonzero(data.y_train == 8)[:53]])
    own = fedvls.FederatedData.from_arrays(
        data.x_train[keep], data.y_train[keep], data.x_test, data.y_test, classes=data.classes
    )
    config = settings(tmp_path / "run", clients=1, **{"server.evaluate_every": 1})
    grid = Loopback(client_app(data=lambda node: own), node_configs(1, tmp_path), config)
    deploy(server_app(), grid)
    for message in grid.up:
        told = numbers_in(message.content) - {message.content["metrics"].get("train-loss")}
        assert not told & {97, 53, 97 / 150, 53 / 150}
        assert len(message.content["metrics"]) <= 5
        shapes = {tuple(a.shape) for record in message.content.array_records.values() for a in record.values()}
        assert shapes == {tuple(t.shape) for t in grid_model(grid).values()} or not shapes


def grid_model(grid: Loopback) -> dict[str, np.ndarray]:
    """The model that was sent down first."""
    return {k: a.numpy() for k, a in grid.down[0].content["arrays"].items()}


@pytest.mark.parametrize(
    ("method", "down", "up"),
    [
        ("fedvls", None, None),
        ("moon", None, None),
        ("scaffold", "control/", "control_change/"),
        ("fedgf", "perturbed/", None),
        ("fpl", "prototypes", "prototypes"),
    ],
)
def test_only_methods_that_declare_it_send_more_than_the_model(method, down, up, tmp_path):
    config = settings(tmp_path / "run", **{"method.name": method})
    grid = Loopback(client_app(), node_configs(3, tmp_path), config)
    deploy(server_app(), grid)
    declared = fedvls.get_method(method).exchanged
    assert (declared["up"] != "nothing") == (up is not None)
    for message in grid.up:
        assert ("sent" in message.content) == (up is not None)
        assert up is None or any(name.startswith(up) for name in message.content["sent"])
    second_round = [m for m in grid.down if m.content["config"]["server-round"] == 2]
    assert len(second_round) == 3
    for message in second_round:
        assert ("broadcast" in message.content) == (down is not None)
        assert down is None or any(name.startswith(down) for name in message.content["broadcast"])


def test_the_client_works_with_flowers_stock_fedavg_to_float32_rounding(tmp_path):
    """Flower adds float32 products in order of arrival: close to ours, not the same bits."""
    config = settings(tmp_path / "run")
    grid = Loopback(client_app(), node_configs(3, tmp_path), config)
    federation = fedvls.Federation("digits", partition=fedvls.dirichlet(beta=0.1), clients=3, engine="sequential")
    start = federation.network.start(torch.device("cpu"), torch.float32)
    stock = FedAvg(fraction_evaluate=0.0, min_train_nodes=3, min_available_nodes=3)
    result = stock.start(grid, to_record(start.tensors()), num_rounds=2)
    ours = federation.run("fedvls", rounds=2, epochs=1, batch_size=32, out=None).weights.tensors()
    theirs = {k: torch.from_numpy(a.numpy().copy()) for k, a in result.arrays.items()}
    apart = max(float((theirs[k] - ours[k]).abs().max()) for k in ours)
    assert apart < 1e-5
    assert any(not torch.equal(theirs[k], ours[k]) for k in ours)


def test_a_node_that_does_not_know_its_number_says_how_to_give_it_one(tmp_path):
    config = settings(tmp_path / "run")
    grid = Loopback(client_app(), [{}], config)
    with pytest.raises(fedvls.RunError, match=r"node 100: no answer: .*--node-config 'site=0'"):
        server_app()(grid, Context(1, 0, {}, RecordDict(), {**config, "server.min_sites": 1}))
    assert grid.up[0].metadata.src_node_id == FIRST
