"""Workers that run side by side: what they are told, and that none is left behind."""

from __future__ import annotations

import multiprocessing
import signal
import subprocess
import time
from pathlib import Path

import pytest
from support import children, start_command, wait_for

from fedvls.runs.config import RunConfig
from fedvls.studies.jobs import Job
from fedvls.studies.processes import processes

TINY = {"method": "fedavg", "rounds": 1, "epochs": 1, "clients": 2, "partition": {"name": "iid"}, "device": "cpu"}
LOOK = """
import os
from pathlib import Path
told = [os.environ.get(name, "") for name in ("FEDVLS_CORES", "FEDVLS_RUNS")]
Path(__file__).with_suffix(".txt").write_text(" ".join(told))
"""

NOTE = """
import os
from pathlib import Path
import fedvls.loop
fedvls.loop.settle = lambda device: Path(__file__).with_name(f"settled-{os.getpid()}").touch()
"""

LOSE = """
from pathlib import Path
from fedvls.engines import memory
once = Path(__file__).with_name("lost")
memory.is_lost = lambda: not once.exists() and not once.touch()
"""


def job_of(**changes):
    return Job(RunConfig.from_mapping({**TINY, **changes}))


@pytest.mark.parametrize(("told", "runs"), [("", 3), ("2", 3), ("10", 10)])
def test_a_worker_is_told_its_share_of_cores_and_how_many_runs_there_are(tmp_path, monkeypatch, told, runs):
    """Its neighbours, or more where we were told that other commands' runs use the GPU too."""
    monkeypatch.setenv("FEDVLS_CORES", "6")
    monkeypatch.setenv("FEDVLS_RUNS", told)
    look = tmp_path / "look.py"
    look.write_text(LOOK)
    assert [error for _, error in processes(3)([job_of(imports=[str(look)])], tmp_path / "runs")] == [None]
    assert look.with_suffix(".txt").read_text() == f"2 {runs}"


def test_a_worker_that_has_lost_the_gpu_is_replaced_and_says_so_in_one_line(tmp_path, capfd):
    """What another program's failure did to it stays with the process."""
    lose = tmp_path / "lose.py"
    lose.write_text(LOSE)
    job = job_of(imports=[str(lose)])
    assert [error for _, error in processes(1)([job], tmp_path / "runs")] == [None]
    assert (tmp_path / "lost").exists()
    told = capfd.readouterr().err
    assert f"the GPU failed {job.folder(tmp_path / 'runs').name}" in told
    assert "Traceback" not in told


def test_a_job_that_has_nothing_to_start_from_fails_alone_and_leaves_no_process(tmp_path):
    missing = job_of(seed=7)
    jobs = [Job(job_of().config, missing), job_of(seed=1)]
    first, second = (error for _, error in processes(2)(jobs, tmp_path))
    assert f"{missing.folder(tmp_path)} has no checkpoint to start from" in first
    assert second is None
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_runs_that_are_stopped_with_their_command_wait_for_what_they_gave_the_gpu(tmp_path, how):
    """A worker that is simply killed would make NVIDIA's multi-process service fail everybody else's work."""
    (tmp_path / "note.py").write_text(NOTE)
    sweep = [
        "sweep",
        "--over",
        "lr=0.01,0.02",
        "--dataset",
        "digits",
        "--rounds",
        5000,
        "--epochs",
        1,
        "--device",
        "cpu",
    ]
    options = ["--workers", 2, "--import", "note.py", "--out", "runs"]
    process = start_command(*sweep, *options, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def both_train():
        return len([log for log in (tmp_path / "runs").glob("*/metrics.jsonl") if log.stat().st_size]) == 2

    wait_for(both_train, process, "two runs have begun")
    workers = {pid for pid in children(process.pid) if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()}
    process.send_signal(how)
    _, errors = process.communicate(timeout=60)
    assert "Traceback" not in errors, errors
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert {int(path.name.removeprefix("settled-")) for path in tmp_path.glob("settled-*")} == workers
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]
