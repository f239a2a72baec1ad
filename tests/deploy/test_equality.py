"""A deployment of k sites ends with the simulator's weights, bit for bit: same seed, partition and dtype."""

from __future__ import annotations

import pytest
import torch
from support import batch_norm_net
from torch import nn

import fedvls.methods
from deploy.loopback import Loopback, deploy, final_weights, node_configs, settings, simulated
from fedvls.flower import client_app, server_app
from fedvls.method import METHODS

DEPLOYABLE = [e.name for e in METHODS if fedvls.get_method(e.name).program.spec["name"] == "rounds"]


def assert_same(run, result):
    expected = result.weights.tensors()
    found = final_weights(run.path)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name


@pytest.mark.parametrize("method", DEPLOYABLE)
def test_every_method_ends_with_the_simulators_weights_and_metrics(method, tmp_path):
    """Three rounds, so that what is broadcast and kept is used twice."""
    config = settings(tmp_path / "run", **{"method.name": method, "rounds": 3})
    run = deploy(server_app(), Loopback(client_app(), node_configs(3, tmp_path), config))
    result = simulated(config)
    assert_same(run, result)
    shared = [{k: v for k, v in record.items() if k != "local"} for record in result.records]
    assert run.records() == shared


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_batch_norm_buffers_follow_the_simulators_rule(dtype, tmp_path):
    """Floating statistics averaged, the integer counter's maximum taken; `own module` on both sides."""
    model = nn.Sequential(nn.AvgPool2d(2), batch_norm_net(10))
    config = settings(tmp_path / "run", dtype=dtype)
    del config["model.name"]
    run = deploy(server_app(model=model), Loopback(client_app(model=model), node_configs(3, tmp_path), config))
    config["model.name"] = ""
    result = simulated(config, model=model)
    assert any(not t.is_floating_point() for t in result.weights.buffers.values())
    assert_same(run, result)


def test_dropout_draws_the_simulators_masks(tmp_path):
    """Masks depend on seed, round, client and step, which a site knows: not on the machine or on who else trains."""
    model = nn.Sequential(nn.Dropout2d(0.2), nn.AvgPool2d(2), nn.Dropout(0.3), batch_norm_net(10))
    config = settings(tmp_path / "run", **{"method.name": "fedsam"})
    del config["model.name"]
    run = deploy(server_app(model=model), Loopback(client_app(model=model), node_configs(3, tmp_path), config))
    config["model.name"] = ""
    assert_same(run, simulated(config, model=model))


def test_a_combined_method_object_is_deployed_as_it_is(tmp_path):
    both = fedvls.get_method("fedvls").with_(step=fedvls.sam(rho=0.05), server=fedvls.extrapolated(eps=0.001))
    config = settings(tmp_path / "run")
    run = deploy(server_app(both), Loopback(client_app(both), node_configs(3, tmp_path), config))
    assert_same(run, simulated(config, both))


def test_partial_participation_draws_the_simulators_cohorts(tmp_path):
    config = settings(tmp_path / "run", clients=5, rounds=4, participation=0.4, **{"method.name": "scaffold"})
    run = deploy(server_app(), Loopback(client_app(), node_configs(5, tmp_path), config))
    result = simulated(config)
    assert [r["cohort"] for r in run.records()] == [r["cohort"] for r in result.records]
    assert len({tuple(r["cohort"]) for r in run.records()}) > 1
    assert_same(run, result)


def test_persistent_momentum_is_kept_at_the_site(tmp_path):
    config = settings(tmp_path / "run", persistent_momentum=True, rounds=3)
    run = deploy(server_app(), Loopback(client_app(), node_configs(3, tmp_path), config))
    assert_same(run, simulated(config, persistent_momentum=True))


@pytest.mark.parametrize(("method", "reason"), [("fedconcat", "class counts"), ("ccvr", "class counts")])
def test_methods_that_need_class_counts_are_refused_with_the_reason(method, reason, tmp_path):
    config = settings(tmp_path / "run", **{"method.name": method})
    with pytest.raises(fedvls.UsageError, match=f"{method}.*cannot be deployed.*{reason}.*never leave"):
        deploy(server_app(), Loopback(client_app(), node_configs(3, tmp_path), config))
