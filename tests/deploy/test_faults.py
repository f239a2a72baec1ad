"""Bad updates, missing sites, interrupted rounds: what the server does about them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, Error, Message, MetricRecord

import fedvls
from deploy.loopback import Loopback, deploy, final_weights, identify, node_configs, settings, simulated
from fedvls.flower import client_app, server_app


def tampered(reply: Message, arrays=None, sent=None, **metrics) -> Message:
    """The reply with other arrays or metrics."""
    content = reply.content.copy()
    for key, change in (("arrays", arrays), ("sent", sent)):
        if change is not None:
            old = {name: array.numpy().copy() for name, array in content[key].items()}
            content[key] = ArrayRecord({name: Array(a) for name, a in change(old).items()})
    named = {name.replace("_", "-"): value for name, value in metrics.items()}
    content["metrics"] = MetricRecord({**content["metrics"], **named})
    reply.content = content
    return reply


def with_nan(arrays):
    first = next(iter(arrays))
    arrays[first].flat[0] = math.nan
    return arrays


def with_wrong_shape(arrays):
    first = next(iter(arrays))
    return {**arrays, first: arrays[first][:-1]}


def in_float64(arrays):
    return {name: a.astype(np.float64) for name, a in arrays.items()}


def without_first(arrays):
    return dict(list(arrays.items())[1:])


def with_extra(arrays):
    return {**arrays, "class_counts": np.arange(10)}


def enlarged(arrays):
    return {name: a * np.float32(1000) for name, a in arrays.items()}


BAD = {
    "NaN": (lambda r: tampered(r, with_nan), "not finite"),
    "wrong shape": (lambda r: tampered(r, with_wrong_shape), "has shape"),
    "wrong type": (lambda r: tampered(r, in_float64), "has type torch.float64"),
    "missing tensor": (lambda r: tampered(r, without_first), "is missing"),
    "unexpected tensor": (lambda r: tampered(r, with_extra), "'class_counts' is not expected"),
    "too far away": (lambda r: tampered(r, enlarged), "above server.max_norm = 50"),
    "10^12 samples": (lambda r: tampered(r, num_examples=10**12), "num-examples = 1000000000000 is not between"),
    "no samples": (lambda r: tampered(r, num_examples=0), "num-examples = 0 is not between"),
    "half a sample": (lambda r: tampered(r, num_examples=0.5), "num-examples = 0.5 is not a whole number"),
    "no steps": (lambda r: tampered(r, steps=0), "steps = 0"),
    "loss that is no number": (lambda r: tampered(r, train_loss=math.inf), "not finite"),
    "a crash": (lambda r: Message(Error(0, "the disk is full"), reply_to=grid_message(r)), "the disk is full"),
}


def grid_message(reply: Message) -> Message:
    """A message that the reply could be a reply to."""
    metadata = reply.metadata
    original = Message(reply.content, dst_node_id=metadata.src_node_id, message_type=metadata.message_type)
    original.metadata.__dict__["_src_node_id"] = metadata.dst_node_id
    return original


@pytest.fixture(scope="module")
def without_site_1(tmp_path_factory) -> dict[str, torch.Tensor]:
    """The weights after two rounds in the second of which site 1 was not connected."""
    folder = tmp_path_factory.mktemp("without")
    config = settings(folder / "run", **{"server.min_sites": 2})
    grid = Loopback(client_app(), node_configs(3, folder), config)

    def leave(site, reply):
        grid.offline = {1}
        return reply

    grid.change = leave
    with pytest.MonkeyPatch.context() as patch:
        identify(patch)
        run = deploy(server_app(), grid)
    assert [r["cohort"] for r in run.records()] == [[0, 1, 2], [0, 2]]
    return final_weights(run.path)


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_update_changes_nothing_and_its_site_is_named(kind, tmp_path, caplog, without_site_1):
    """Site 1 of three is bad in the second round; the weights are those of a run in which it was left out."""
    change, reason = BAD[kind]
    config = settings(tmp_path / "bad", **{"server.max_norm": 50.0})
    grid = Loopback(client_app(), node_configs(3, tmp_path), config)
    rounds = {"now": 0}

    def tamper(site, reply):
        rounds["now"] += site == 2  # answers arrive from the last site to the first
        return change(reply) if site == 1 and rounds["now"] == 2 else reply

    grid.change = tamper
    run = deploy(server_app(), grid)
    records = run.records()
    assert records[0]["left_out"] == []
    assert "refused" not in records[0]
    assert records[1]["left_out"] == [1]
    assert reason in records[1]["refused"]["site 1"]
    assert f"round 2: the update of site 1 does not count: {records[1]['refused']['site 1']}" in caplog.text

    for name, tensor in without_site_1.items():
        assert torch.equal(final_weights(run.path)[name], tensor), name


def test_uploads_beside_the_model_are_checked_too(tmp_path):
    config = settings(tmp_path / "run", **{"method.name": "scaffold"})
    grid = Loopback(client_app(), node_configs(3, tmp_path), config)
    grid.change = lambda site, reply: tampered(reply, sent=with_wrong_shape) if site == 0 else reply
    records = deploy(server_app(), grid).records()
    assert [r["left_out"] for r in records] == [[0], [0]]
    assert "sent: 'control_change/" in records[0]["refused"]["site 0"]


def test_a_node_that_has_gone_is_named_by_its_number(tmp_path):
    grid = Loopback(client_app(), node_configs(3, tmp_path), settings(tmp_path / "run"))

    def go(site, reply):
        grid.lost = {2} if len(grid.up) >= 2 else set()  # site 2 answers first in a round
        return reply

    grid.change = go
    first, second = deploy(server_app(), grid).records()
    assert first["left_out"] == []
    assert second["cohort"] == [0, 1, 2]
    assert second["refused"] == {"site 2": "no answer: Node Unavailable"}
    assert second["left_out"] == [2]


def test_two_nodes_with_one_number_count_once(tmp_path):
    config = settings(tmp_path / "run")
    nodes = node_configs(3, tmp_path)
    nodes[2]["site"] = 1
    records = deploy(server_app(), Loopback(client_app(), nodes, config)).records()
    assert records[0]["cohort"] == [0, 1]
    assert "two nodes have the same number" in records[0]["refused"]["site 1"]
    assert records[0]["left_out"] == []


def test_too_few_sites_stop_the_run_with_a_message_after_the_wait(tmp_path):
    grid = Loopback(client_app(), node_configs(3, tmp_path), settings(tmp_path / "run", **{"server.min_sites": 2}))
    grid.offline = {0, 2}
    with pytest.raises(fedvls.RunError, match=r"round 1: 1 of at least 2 sites connected within 0.01 s"):
        deploy(server_app(), grid)
    grid.offline = {2}
    records = deploy(server_app(), grid).records()  # the same folder: it continues
    assert [r["cohort"] for r in records] == [[0, 1], [0, 1]]


def test_a_run_in_which_no_update_can_be_used_stops_and_names_the_reasons(tmp_path):
    grid = Loopback(client_app(), node_configs(3, tmp_path), settings(tmp_path / "run"))
    grid.change = lambda site, reply: tampered(reply, with_nan)
    with pytest.raises(fedvls.RunError, match=r"round 1: 0 of 3 updates .*site 0: it is not finite.*site 2"):
        deploy(server_app(), grid)


class Killed(BaseException):
    """Nothing catches it, as nothing catches kill -9."""


@pytest.mark.parametrize("method", ["fedvls", "moon", "scaffold", "feddyn", "fedadam", "fedgf", "fpl"])
def test_a_run_killed_in_the_middle_of_a_round_ends_as_if_it_had_not_been(method, tmp_path):
    """The sites have trained round 2 and written what they keep; the server dies before it aggregates."""
    config = settings(tmp_path / "run", rounds=3, **{"method.name": method})
    grid = Loopback(client_app(), node_configs(3, tmp_path), config)

    def kill(site, reply):
        if len(grid.up) == 5:  # two rounds of three answers, the last of them on its way
            raise Killed
        return reply

    grid.change = kill
    with pytest.raises(Killed):
        deploy(server_app(), grid)
    assert not (tmp_path / "run" / "result.json").exists()
    grid.change = lambda site, reply: reply
    run = deploy(server_app(), grid)
    assert [r["round"] for r in run.records()] == [1, 2, 3]
    rounds = [m.content["config"]["server-round"] for m in grid.down]
    assert rounds == [1] * 3 + [2] * 3 + [2] * 3 + [3] * 3
    result = simulated(config)
    for name, tensor in result.weights.tensors().items():
        assert torch.equal(final_weights(run.path)[name], tensor), name


def test_a_complete_run_is_not_run_again(tmp_path):
    grid = Loopback(client_app(), node_configs(3, tmp_path), settings(tmp_path / "run"))
    deploy(server_app(), grid)
    before = len(grid.down)
    deploy(server_app(), grid)
    assert len(grid.down) == before


def test_another_run_in_the_same_folder_is_refused(tmp_path):
    config = settings(tmp_path / "run")
    deploy(server_app(), Loopback(client_app(), node_configs(3, tmp_path), config))
    other = Loopback(client_app(), node_configs(3, tmp_path), {**config, "lr": 0.5})
    with pytest.raises(fedvls.RunError, match="holds another run: lr"):
        deploy(server_app(), other)


def test_a_run_folder_that_the_server_cannot_use_is_named_with_its_setting(tmp_path):
    """A name that is too long is refused on looking, like a path under another user's private folder."""
    config = settings(tmp_path / ("x" * 300) / "run")
    with pytest.raises(fedvls.RunError, match=r"server\.run_dir, on the server's machine: .*name too long"):
        deploy(server_app(), Loopback(client_app(), node_configs(3, tmp_path), config))


def test_a_relative_run_folder_starts_where_the_server_was_started(tmp_path, monkeypatch):
    """What lets one app run under systemd, in a container and by hand, each with a home of its own."""
    monkeypatch.chdir(tmp_path)
    config = settings("run", rounds=1)
    deploy(server_app(), Loopback(client_app(), node_configs(3, tmp_path), config))
    assert (tmp_path / "run" / "result.json").exists()
