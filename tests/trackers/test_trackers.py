"""Each tracker against the real thing: TensorBoard's own reader, an MLflow server, W&B's own file offline."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import run_command

import fedvls
from fedvls.callbacks import Callback
from fedvls.errors import UsageError
from fedvls.runs.store import RunDirectory
from fedvls.trackers import TRACKERS, open_trackers
from fedvls.trackers.base import Tracker, flat, round_values

SHORT = [
    "--method",
    "fedavg",
    "--dataset",
    "digits",
    "--beta",
    "0.1",
    "--rounds",
    "3",
    "--epochs",
    "1",
    "--device",
    "cpu",
]


def records_of(folder: Path) -> list[dict]:
    return RunDirectory(folder).records()


def run_stripes(data: fedvls.FederatedData, folder: Path, **choices: object) -> None:
    """Three short rounds in this process."""
    federation = fedvls.Federation(data, clients=3, partition=fedvls.dirichlet(beta=0.3), seed=1, engine="sequential")
    federation.run("fedavg", rounds=3, epochs=1, out=folder, **choices)


def test_tensorboard_reads_back_what_the_run_recorded(tmp_path, stripes):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run_stripes(stripes, tmp_path / "r", log=["tensorboard"])
    events = EventAccumulator(str(tmp_path / "r" / "tensorboard"))
    events.Reload()
    records = records_of(tmp_path / "r")
    assert {e.step: e.value for e in events.Scalars("accuracy")} == pytest.approx(
        {r["round"]: r["accuracy"] for r in records}
    )
    (vacant,) = events.Scalars("local/vacant/after")  # clients are evaluated in the last round
    assert (vacant.step, vacant.value) == (3, pytest.approx(records[-1]["local"]["after"]["vacant"]))
    assert events.Scalars("result/last")[0].value == pytest.approx(records[-1]["accuracy"])


def wandb_records(path: Path) -> Iterator[Any]:
    """The records of a .wandb file: a LevelDB log (blocks of 32 KiB, each piece with crc, length and kind)."""
    from wandb.proto import wandb_internal_pb2

    content, place, whole = path.read_bytes(), 7, b""
    assert content[:4] == b":W&B"
    while place + 7 <= len(content):
        if place % 32768 > 32768 - 7:  # no room for a head: the rest of the block is padding
            place += 32768 - place % 32768
            continue
        length, kind = struct.unpack_from("<HB", content, place + 4)
        piece = content[place + 7 : place + 7 + length]
        place += 7 + length
        whole = piece if kind in (1, 2) else whole + piece
        if kind in (1, 4):  # whole, or the last piece
            record = wandb_internal_pb2.Record()
            record.ParseFromString(whole)
            yield record


def test_weights_and_biases_offline_keeps_the_run_in_its_folder(tmp_path, monkeypatch):
    """What W&B would upload later is in its file; read with its own message types."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    done = run_command("run", *SHORT, "--log", "wandb", "--out", "r", "--json", cwd=tmp_path, check=True)
    assert json.loads(done.stdout)["rounds"] == 3  # W&B's own words do not mix with the answer
    (store,) = (tmp_path / "r" / "wandb").glob("offline-run-*/run-*.wandb")
    identifier = json.loads((tmp_path / "r" / "trackers.json").read_text())["wandb"]
    assert store.name == f"run-{identifier}.wandb"
    seen = {}
    for record in wandb_records(store):
        if record.WhichOneof("record_type") == "history":
            values = {item.key or "/".join(item.nested_key): item.value_json for item in record.history.item}
            seen[int(values["_step"])] = json.loads(values["accuracy"])
    assert seen == pytest.approx({r["round"]: r["accuracy"] for r in records_of(tmp_path / "r")})


@pytest.fixture(scope="module")
def mlflow_server(tmp_path_factory):
    """`mlflow server` with its own database, on a free port of this machine."""
    folder = tmp_path_factory.mktemp("mlflow")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{folder}/m.db", "--artifacts-destination", str(folder / "artifacts")]
    with (folder / "log.txt").open("w") as log:
        server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env={**os.environ, **quiet})
    deadline = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=5):
                break
        except OSError:
            assert server.poll() is None, (folder / "log.txt").read_text()[-2000:]
            assert time.monotonic() < deadline, (folder / "log.txt").read_text()[-2000:]
            time.sleep(0.3)
    yield address
    server.terminate()
    server.wait(timeout=30)


def ask_mlflow(address: str, path: str, **values: object) -> dict:
    request = urllib.request.Request(
        f"{address}/api/2.0/mlflow/{path}", json.dumps(values).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_mlflow_gets_the_run_and_a_resume_goes_on_in_the_same_record(tmp_path, mlflow_server, monkeypatch):
    """Asked over HTTP, not through the client that wrote it."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow_server)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    done = run_command("run", *SHORT, "--log", "mlflow", "--out", "r", "--json", cwd=tmp_path, check=True)
    assert json.loads(done.stdout)["rounds"] == 3
    experiments = ask_mlflow(mlflow_server, "experiments/search", max_results=10)["experiments"]
    (experiment,) = [e["experiment_id"] for e in experiments if e["name"] == "fedvls"]
    (run,) = ask_mlflow(mlflow_server, "runs/search", experiment_ids=[experiment])["runs"]
    assert run["info"]["status"] == "FINISHED"
    assert run["info"]["run_name"] == "r"
    assert {p["key"]: p["value"] for p in run["data"]["params"]}["partition.beta"] == "0.1"
    # Two rounds are taken away, as if the run had been stopped; the resume logs them into the same record.
    folder = tmp_path / "r"
    (folder / "result.json").unlink()
    assert json.loads((folder / "trackers.json").read_text()) == {"mlflow": run["info"]["run_id"]}
    for path in (folder / "checkpoint").glob("round-000003.*"):
        path.unlink()
    run_command("resume", "r", cwd=tmp_path, check=True)
    (again,) = ask_mlflow(mlflow_server, "runs/search", experiment_ids=[experiment])["runs"]
    assert again["info"]["status"] == "FINISHED"
    url = f"{mlflow_server}/api/2.0/mlflow/metrics/get-history?run_id={run['info']['run_id']}&metric_key=accuracy"
    with urllib.request.urlopen(url, timeout=30) as answer:
        history = {m["step"]: m["value"] for m in json.load(answer)["metrics"]}
    assert history == pytest.approx({r["round"]: r["accuracy"] for r in records_of(folder)})


def test_a_server_that_is_away_is_said_before_the_first_round(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    done = run_command("run", *SHORT, "--log", "mlflow", "--out", "r", cwd=tmp_path)
    assert done.returncode == 2
    assert "mlflow cannot be started" in done.stderr
    assert records_of(tmp_path / "r") == []


class Failing(Tracker):
    """Opens, then fails every time."""

    name, package = "failing", "json"

    def open(self, title, choices, done):
        self.choices = choices

    def log(self, values, round):
        raise OSError("the line is cut")

    def close(self, summary):
        raise OSError("the line is cut")


def test_a_tracker_that_fails_later_is_said_once_and_stops_nothing(tmp_path, stripes, caplog):
    federation = fedvls.Federation(stripes, clients=3, seed=0)
    tracker = Failing(tmp_path)
    result = federation.run("fedavg", rounds=3, epochs=1, out=tmp_path / "r", callbacks=[tracker])
    assert len(result.curve) == 3
    assert [r.getMessage() for r in caplog.records] == [
        "failing: the line is cut; the run goes on, some numbers will be missing there"
    ]
    assert tracker.choices["rounds"] == 3


def test_logging_does_not_change_what_a_run_is(tmp_path, stripes):
    """The same folder is accepted with and without it, and the numbers have the same bytes."""
    run_stripes(stripes, tmp_path / "plain")
    run_stripes(stripes, tmp_path / "told", log=["tensorboard"])
    assert (tmp_path / "plain/metrics.jsonl").read_bytes() == (tmp_path / "told/metrics.jsonl").read_bytes()
    run_stripes(stripes, tmp_path / "told")


def test_every_tracker_is_a_callback_and_a_missing_package_names_the_extra(tmp_path, monkeypatch):
    for name in TRACKERS:
        (tracker,) = open_trackers([name, name], tmp_path)
        assert isinstance(tracker, Callback)
        assert tracker.name == name
        monkeypatch.setattr(type(tracker), "package", "no_such_package")
        with pytest.raises(UsageError, match=rf"install fedvls\[{name}\]"):
            open_trackers([name], tmp_path)
    with pytest.raises(UsageError, match="needs a run directory"):
        open_trackers(["tensorboard"], None)
    with pytest.raises(UsageError, match="did you mean 'wandb'"):
        fedvls.RunConfig(log=("wand",))


def test_the_numbers_of_a_round_are_flat_and_finite():
    local = {"drift_diversity": None, "before": {"vacant": 0.5}, "after": {"vacant": None}}
    record = {"accuracy": 0.5, "loss": 1, "train_loss": 2.0, "left_out": [3], "server": {"eta": 1.5}, "local": local}
    values = round_values(record, {"seconds": 2.0, "samples_per_second": 10.0})
    assert values == {
        "accuracy": 0.5,
        "loss": 1.0,
        "train_loss": 2.0,
        "updates_left_out": 1.0,
        "server/eta": 1.5,
        "local/vacant/before": 0.5,
        "time/seconds": 2.0,
        "time/samples_per_second": 10.0,
    }
    assert flat({"a": {"b": 1, "long": [0] * 50}, "c": [1, 2]}) == {"a.b": 1, "c": [1, 2]}
