"""Workers that run side by side: what they are told, and that none is left behind."""

from __future__ import annotations

import multiprocessing

import pytest

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


def test_a_job_that_has_nothing_to_start_from_fails_alone_and_leaves_no_process(tmp_path):
    missing = job_of(seed=7)
    jobs = [Job(job_of().config, missing), job_of(seed=1)]
    first, second = (error for _, error in processes(2)(jobs, tmp_path))
    assert f"{missing.folder(tmp_path)} has no checkpoint to start from" in first
    assert second is None
    assert multiprocessing.active_children() == []
