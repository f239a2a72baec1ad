"""Sweeps on real local Ray clusters: every cell one task, files travel back, lost workers' cells are run elsewhere."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import secrets
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from support import command_environment, descendants, in_a_run, run_command, start_command, wait_for

from fedvls.errors import UsageError
from fedvls.runs.config import RunConfig
from fedvls.studies.on_ray import _library, pack, run_files, unpack

SWEEP = ["sweep", "--method", "fedvls", "--over", "method.lam=0.1,0.5,1", "--dataset", "digits", "--beta", "0.1"]
SWEEP += ["--rounds", "20", "--epochs", "2", "--device", "cpu", "--json", "--out", "runs"]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """The sweep without Ray: its table, and the metrics and configurations of its runs."""
    folder = tmp_path_factory.mktemp("here")
    done = run_command(*SWEEP, cwd=folder, check=True)
    return json.loads(done.stdout), contents(folder / "runs")


def contents(runs: Path) -> dict[str, tuple[bytes, bytes]]:
    return {p.name: ((p / "metrics.jsonl").read_bytes(), (p / "config.yaml").read_bytes()) for p in runs.iterdir()}


def listening(pids: set[int]) -> set[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Addresses at which these processes accept connections, from the kernel's own tables."""
    handles = {handle for pid in pids for handle in Path(f"/proc/{pid}/fd").glob("*")}
    sockets = set()
    for handle in handles:
        try:
            sockets |= set(re.findall(r"socket:\[(\d+)\]", str(handle.readlink())))
        except OSError:  # closed meanwhile
            continue
    found: set[ipaddress.IPv4Address | ipaddress.IPv6Address] = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            local, state, inode = (line.split()[k] for k in (1, 3, 9))
            if state == "0A" and inode in sockets:  # LISTEN
                words = re.findall("[0-9A-F]{8}", local.split(":")[0])
                raw = b"".join(bytes.fromhex(word)[::-1] for word in words)
                address = ipaddress.ip_address(raw)
                found.add(getattr(address, "ipv4_mapped", None) or address)
    return found


def test_a_killed_workers_cell_is_run_again_and_nothing_listens_beyond_this_machine(tmp_path, here):
    table, expected = here
    command = [*SWEEP, "--on", "ray", "--workers", "2"]
    process = start_command(*command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        victim = wait_for(lambda: in_a_run(process.pid), process, "a worker is in the middle of a run")
        addresses = listening({process.pid, *descendants(process.pid)})
        os.kill(victim, signal.SIGKILL)
        output, errors = process.communicate(timeout=200)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0, errors
    assert addresses
    assert {address for address in addresses if not address.is_loopback} == set()
    assert [row["best"] for row in json.loads(output)] == [row["best"] for row in table]
    assert contents(tmp_path / "runs") == expected


CLUSTER = """
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
second = cluster.add_node(num_cpus=1)
print("ready", cluster.address, second.all_processes["raylet"][0].process.pid, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


@pytest.fixture
def cluster(monkeypatch):
    """Two nodes with one worker each, as two machines would be: the cluster's address and the second node's process."""
    # On loopback only, and with a token of their own: the nodes and the command under test are given the same.
    for name, value in {"ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "AUTH_MODE": "token", "USAGE_STATS_ENABLED": "0"}.items():
        monkeypatch.setenv(f"RAY_{name}", value)
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(16))
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER],
        env=command_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    nodes = list(descendants(process.pid))
    try:
        for line in process.stdout:  # it ends when the process does, so a cluster that fails to start is an error
            if line.startswith("ready "):
                nodes = list(descendants(process.pid))
                _, address, second = line.split()
                yield address, int(second)
                break
        else:
            raise AssertionError("the cluster did not start")
    finally:
        try:
            process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        for pid in nodes:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_a_cluster_that_loses_a_machine_completes_every_cell(tmp_path, here, cluster):
    _, expected = here
    address, second = cluster
    command = [*SWEEP, "--on", "ray", "--ray-address", address]
    process = start_command(*command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        wait_for(lambda: in_a_run(second), process, "the second node is in the middle of a run")
        for pid in [second, *descendants(second)]:
            os.kill(pid, signal.SIGKILL)
        _, errors = process.communicate(timeout=200)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0, errors
    assert contents(tmp_path / "runs") == expected


@pytest.fixture
def _task_environment(monkeypatch):
    """A task limits its own process to one core; here that is the tests'."""
    monkeypatch.setenv("FEDVLS_CORES", "1")


@pytest.mark.usefixtures("_task_environment")
def test_a_half_finished_run_travels_to_the_worker_and_comes_back_whole(tmp_path):
    """What a task does, without a cluster: files of three rounds in, files of five out, places as they are here."""
    values = {"data": "digits", "rounds": 5, "epochs": 1, "local_every": 1, "device": "cpu"}
    whole, error = run_files(values, {}, None)
    assert error is None
    part, _ = run_files({**values, "rounds": 3}, {}, None)
    part["config.yaml"] = whole["config.yaml"]
    del part["result.json"]
    files, error = run_files(values, part, None)
    assert error is None
    assert files["metrics.jsonl"] == whole["metrics.jsonl"]
    assert files["header.json"] == part["header.json"]  # continued, not begun again
    local = RunConfig.from_mapping({**values, "data": {"name": "digits", "data_dir": "/mine"}})
    unpack(files, tmp_path / "run", local)
    assert pack(tmp_path / "run").keys() == files.keys()
    assert "data_dir: /mine" in (tmp_path / "run" / "config.yaml").read_text()


@pytest.mark.usefixtures("_task_environment")
def test_a_failing_task_says_why():
    files, error = run_files({"data": "digits", "partition": {"name": "dirichlet", "min_size": 9999}}, {}, None)
    assert "min_size" in error
    assert "result.json" not in files


def test_a_file_outside_the_runs_folder_is_refused(tmp_path):
    with pytest.raises(UsageError, match="outside its folder"):
        unpack({"../elsewhere": b""}, tmp_path / "run", RunConfig())


def test_without_ray_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"install fedvls\[ray\]"):
        _library(private=False)
