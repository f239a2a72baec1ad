"""A study or sweep that loses its process, or a worker, loses no finished cell."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from support import descendants, in_a_run, run_command, start_command, wait_for
from tiny_files import write_mnist

SWEEP = ["sweep", "--method", "fedvls", "--over", "method.lam=0.1,0.5,1", "--dataset", "digits", "--beta", "0.1"]
SWEEP += ["--rounds", "20", "--epochs", "2", "--device", "cpu", "--json"]


def finished(runs: Path) -> dict[str, bytes]:
    """Results so far, by run, with everything that tells a second run from the first."""
    return {p.parent.name: (p.parent / "header.json").read_bytes() + p.read_bytes() for p in runs.glob("*/result.json")}


def half_done(runs: Path) -> bool:
    """A run that has rounds but no result."""
    return any(p.stat().st_size and not (p.parent / "result.json").exists() for p in runs.glob("*/metrics.jsonl"))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The sweep as it is when nothing happens."""
    folder = tmp_path_factory.mktemp("undisturbed")
    done = run_command(*SWEEP, "--workers", 1, "--out", "runs", cwd=folder, check=True)
    return json.loads(done.stdout), {p.name: (p / "metrics.jsonl").read_bytes() for p in (folder / "runs").iterdir()}


def same_metrics(runs: Path, expected: dict[str, bytes]) -> bool:
    return {p.name: (p / "metrics.jsonl").read_bytes() for p in runs.iterdir()} == expected


def test_a_killed_study_goes_on_where_it_was(tmp_path):
    (tmp_path / "data").mkdir()
    write_mnist(tmp_path / "data", train=400)
    study = ["reproduce", "dirichlet", "--dataset", "mnist", "--beta", "0.5", "--methods", "fedavg,fedprox,fedvls"]
    study += ["--seeds", "0", "--rounds", "30", "--data-dir", "data", "--device", "cpu", "--out", "out", "--json"]
    runs = tmp_path / "out" / "runs"
    process = start_command(*study, "--workers", 1, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: finished(runs) and half_done(runs), process, "one cell is finished and another begun")
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = finished(runs)
    assert 1 <= len(before) < 3
    again = run_command(*study, "--workers", 2, cwd=tmp_path, check=True)
    after = finished(runs)
    assert len(after) == 3
    assert before.items() <= after.items()  # not run again: a second run's header has another time
    assert f"{len(before)} finished, {3 - len(before)} to do" in again.stderr
    assert all(cell["measured"] for cell in json.loads(again.stdout)["cells"])


def test_workers_end_with_their_parent_and_the_sweep_can_be_continued(tmp_path, undisturbed):
    table, metrics = undisturbed
    command = [*SWEEP, "--workers", 2, "--out", "runs"]
    process = start_command(*command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: half_done(tmp_path / "runs"), process, "a run has begun")
    workers = list(descendants(process.pid))
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]
    done = run_command(*command, cwd=tmp_path, check=True)
    assert [row["best"] for row in json.loads(done.stdout)] == [row["best"] for row in table]
    assert same_metrics(tmp_path / "runs", metrics)


def test_a_killed_workers_run_is_continued_by_another(tmp_path, undisturbed):
    _, metrics = undisturbed
    command = [*SWEEP, "--workers", 2, "--out", "runs"]
    process = start_command(*command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    victim = wait_for(lambda: in_a_run(process.pid), process, "a worker is in the middle of a run")
    os.kill(victim, signal.SIGKILL)
    output, errors = process.communicate(timeout=250)
    assert process.returncode == 0, errors
    assert len(json.loads(output)) == 3
    assert same_metrics(tmp_path / "runs", metrics)
