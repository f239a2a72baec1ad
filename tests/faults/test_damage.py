"""Damaged files and poisoned updates: named, survived where possible, and nothing is lost."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import hand_made, small_data

import fedvls
from fedvls.runs.checkpoint import GroupTensors, Snapshot, load_checkpoint, save_checkpoint
from fedvls.runs.store import RunDirectory

CPU = torch.device("cpu")


def federation(data: fedvls.FederatedData, **more: object) -> fedvls.Federation:
    return fedvls.Federation(data, partition=fedvls.dirichlet(beta=0.5), clients=3, device="cpu", **more)


class StopAfter(fedvls.Callback):
    """Interrupt a run after a round."""

    def __init__(self, round: int) -> None:
        self.round = round

    def on_round(self, record, timing):
        if record["round"] == self.round:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run of six rounds that stopped after four, and the same run untouched."""
    folder, data = tmp_path_factory.mktemp("stopped"), small_data()
    whole = federation(data).run("fedvls", rounds=6, epochs=1, out=folder / "whole")
    with pytest.raises(KeyboardInterrupt):
        federation(data).run("fedvls", rounds=6, epochs=1, out=folder / "run", callbacks=[StopAfter(4)])
    return data, folder / "run", whole


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), cut=st.booleans(), mark=st.booleans())
def test_any_flipped_bit_or_truncation_is_noticed_and_the_run_ends_the_same(
    stopped, tmp_path_factory, where, bit, cut, mark
):
    data, source, whole = stopped
    run = tmp_path_factory.mktemp("damaged") / "run"
    shutil.copytree(source, run)
    newest = run / "checkpoint" / ("round-000004.json" if mark else "round-000004.safetensors")
    content = bytearray(newest.read_bytes())
    position = int(where * len(content))
    if cut:
        content = content[:position]
    else:
        content[position] ^= 1 << bit
    newest.write_bytes(content)
    resumed = federation(data).run("fedvls", rounds=6, epochs=1, out=run)
    assert resumed.records == whole.records
    for key, tensor in whole.weights.tensors().items():
        assert torch.equal(tensor, resumed.weights.tensors()[key])


def test_a_damaged_checkpoint_is_named_in_a_warning(stopped, tmp_path, caplog):
    data, source, _ = stopped
    shutil.copytree(source, tmp_path / "run")
    newest = tmp_path / "run" / "checkpoint" / "round-000004.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1])
    federation(data).run("fedvls", rounds=6, epochs=1, out=tmp_path / "run")
    assert "round-000004.safetensors is damaged" in caplog.text


def test_when_all_checkpoints_are_damaged_the_run_says_so_and_keeps_the_files(stopped, tmp_path):
    data, source, _ = stopped
    run = tmp_path / "run"
    shutil.copytree(source, run)
    for file in (run / "checkpoint").glob("*.safetensors"):
        file.write_bytes(b"torn")
    before = {p: p.read_bytes() for p in run.rglob("*") if p.is_file()}
    with pytest.raises(fedvls.RunError, match=r"no usable checkpoint: .*round-000004"):
        federation(data).run("fedvls", rounds=6, epochs=1, out=run)
    assert {p: p.read_bytes() for p in run.rglob("*") if p.is_file()} == before


def test_a_torn_last_line_of_the_metrics_is_run_again(stopped, tmp_path):
    data, source, whole = stopped
    run = tmp_path / "run"
    shutil.copytree(source, run)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"round": 5, "accur')
    federation(data).run("fedvls", rounds=6, epochs=1, out=run)
    assert RunDirectory(run).records() == json.loads(json.dumps(whole.records))


def test_a_run_directory_of_another_config_is_refused_and_left_alone(stopped):
    data, source, _ = stopped
    before = (source / "metrics.jsonl").read_bytes()
    with pytest.raises(fedvls.RunError, match=r"holds another run: lr \(0.01 there, 0.5 here\)"):
        federation(data).run("fedvls", rounds=6, epochs=1, lr=0.5, out=source)
    assert (source / "metrics.jsonl").read_bytes() == before


def test_other_data_under_the_same_config_is_refused(stopped, tmp_path):
    _, source, _ = stopped
    shutil.copytree(source, tmp_path / "run")
    with pytest.raises(fedvls.RunError, match="different data: its fingerprint does not match"):
        federation(small_data(seed=1)).run("fedvls", rounds=6, epochs=1, out=tmp_path / "run")


def test_two_processes_cannot_write_one_run(stopped, tmp_path):
    from fedvls.runs.files import exclusive

    data, source, _ = stopped
    shutil.copytree(source, tmp_path / "run")
    with exclusive(tmp_path / "run"), pytest.raises(fedvls.RunError, match="written by another process"):
        federation(data).run("fedvls", rounds=6, epochs=1, out=tmp_path / "run")


def test_snapshots_keep_model_server_and_client_tensors(tmp_path):
    from fedvls.clients import ClientStates

    model = {"a.weight": torch.randn(2, 3, dtype=torch.float64), "n": torch.tensor(7)}
    clients = ClientStates({12: {"momentum/a.weight": torch.randn(3)}, 3: {"momentum/a.weight": torch.randn(3)}})
    first = GroupTensors(model, {"h/a.weight": torch.ones(1)}, {"c": torch.tensor(0.3)})
    saved = Snapshot(9, [first, GroupTensors({"b": torch.zeros(2)})], clients)
    save_checkpoint(tmp_path, saved)
    loaded = load_checkpoint(tmp_path, CPU)
    assert loaded is not None
    assert loaded.round == 9
    assert len(loaded.groups) == 2
    assert loaded.tensors().keys() == saved.tensors().keys()
    assert all(torch.equal(t, saved.tensors()[k]) for k, t in loaded.tensors().items())


def poisoned_data(clients: int) -> tuple[fedvls.FederatedData, fedvls.Partition]:
    """The last client's inputs are huge, so that training on them overflows."""
    data = small_data()
    x = data.x_train.copy()
    x[-10:] = 3e38
    share = np.array_split(np.arange(len(x) - 10), clients - 1)
    poisoned = fedvls.FederatedData.from_arrays(x, data.y_train, data.x_test, data.y_test)
    return poisoned, hand_made(*[s.tolist() for s in share], list(range(len(x) - 10, len(x))))


def test_a_client_whose_update_is_not_finite_is_left_out_counted_and_reported(caplog, tmp_path):
    data, partition = poisoned_data(3)
    fed = fedvls.Federation(data, partition=partition, clients=3, device="cpu")
    result = fed.run("fedavg", rounds=2, epochs=1, out=tmp_path / "run")
    assert [r["left_out"] for r in result.records] == [[2], [2]]
    assert "round 1: left out client 2, not finite" in caplog.text
    assert json.loads((tmp_path / "run" / "result.json").read_text())["updates_left_out"] == 2
    assert all(torch.isfinite(t).all() for t in result.weights.tensors().values())


def test_a_round_without_any_finite_update_stops_with_round_and_clients_named(tmp_path):
    data, _ = poisoned_data(2)
    ill = list(range(len(data.x_train) - 10, len(data.x_train)))
    fed = fedvls.Federation(data, partition=hand_made(ill[:5], ill[5:]), clients=2, device="cpu")
    with pytest.raises(fedvls.RunError, match=r"round 1: no client's update is finite \(clients 0, 1\)"):
        fed.run("fedavg", rounds=2, epochs=1, out=tmp_path / "run")
