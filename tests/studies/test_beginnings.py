"""A run that was made with fewer or more rounds is the beginning of another, and changes nothing in it."""

from __future__ import annotations

import shutil

import pytest

from fedvls.runs.config import RunConfig
from fedvls.runs.store import RunDirectory
from fedvls.studies.beginnings import take_beginning
from fedvls.studies.execute import execute, here
from fedvls.studies.jobs import Job

SMALL = {
    "data": {"name": "digits", "fraction": 0.2},
    "partition": {"name": "dirichlet", "beta": 0.5},
    "model": {"name": "mlp", "width": 8},
    "clients": 3,
    "epochs": 1,
    "device": "cpu",
    "engine": "sequential",
    "local_every": 2,
}


def job_of(rounds, method="fedvls", **changes):
    return Job(RunConfig.from_mapping({**SMALL, "method": method, "rounds": rounds, **changes}))


def run(root, *jobs):
    """Runs the jobs one after another; at which rounds each began."""
    began = []

    class Watch:
        def __init__(self, job):
            pass

        def on_start(self, header, rounds, done):
            began.append(done)

        def on_round(self, record, timing):
            pass

        def on_end(self, result):
            pass

    for job in jobs:
        assert execute([job], root, here(Watch)) == {}
    return began


def bytes_of(root, job):
    folder = job.folder(root)
    (newest,) = sorted((folder / "checkpoint").glob("*.safetensors"))[-1:]
    return (folder / "metrics.jsonl").read_bytes(), newest.read_bytes()


def assert_as_alone(root, job):
    """The run has every round, and the bytes of one that began at round 1."""
    assert run(root / "alone", job) == [0]
    assert bytes_of(root, job) == bytes_of(root / "alone", job)
    assert RunDirectory(job.folder(root)).result()["rounds"] == job.config.rounds
    assert len(RunDirectory(job.folder(root)).timings()) == job.config.rounds


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fedavgm", "moon", "ccvr"])
def test_a_run_that_goes_on_from_a_shorter_one_ends_with_the_bits_it_has_alone(tmp_path, method):
    shorter, job = job_of(3, method), job_of(6, method)
    assert run(tmp_path, shorter, job) == [0, 2]
    assert_as_alone(tmp_path, job)


def test_a_run_that_goes_on_from_an_unfinished_longer_one_ends_with_the_bits_it_has_alone(tmp_path):
    shorter, longer, job = job_of(3), job_of(9), job_of(5)
    run(tmp_path, shorter)
    take_beginning(longer, tmp_path)
    shutil.rmtree(shorter.folder(tmp_path))
    assert run(tmp_path, job) == [2]
    assert_as_alone(tmp_path, job)


@pytest.mark.parametrize("other", [{"seed": 1}, {"lr": 0.02}, {"method": "fedavg"}, {"dtype": "float64"}])
def test_another_run_is_no_beginning(tmp_path, other):
    run(tmp_path, job_of(3))
    assert take_beginning(job_of(5, **{"method": "fedvls", **other}), tmp_path) is None


def test_where_rounds_decide_what_the_first_ones_do_nothing_is_taken(tmp_path):
    run(tmp_path, job_of(2, {"name": "fedconcat", "clusters": 2}))
    assert take_beginning(job_of(4, {"name": "fedconcat", "clusters": 2}), tmp_path) is None


def test_a_run_that_has_begun_keeps_its_own_rounds(tmp_path):
    run(tmp_path, job_of(2), job_of(4))
    assert take_beginning(job_of(4), tmp_path) is None


def test_the_longest_beginning_is_taken(tmp_path):
    run(tmp_path, job_of(2), job_of(4), job_of(3))
    assert take_beginning(job_of(9), tmp_path) == (job_of(4).name, 3)


@pytest.mark.parametrize("damage", ["checkpoint", "metrics", "config", "header"])
def test_a_damaged_run_is_passed_over(tmp_path, damage):
    run(tmp_path, job_of(2), job_of(4))
    longer = job_of(4).folder(tmp_path)
    for file in {
        "checkpoint": sorted((longer / "checkpoint").glob("*.safetensors")),
        "metrics": [longer / "metrics.jsonl"],
        "config": [longer / "config.yaml"],
        "header": [longer / "header.json"],
    }[damage]:
        file.write_bytes(file.read_bytes()[:20])
    assert take_beginning(job_of(6), tmp_path) == (job_of(2).name, 1)
    assert run(tmp_path, job_of(6)) == [1]


def test_without_another_run_there_is_nothing_to_take(tmp_path):
    assert take_beginning(job_of(2), tmp_path) is None
    assert not job_of(2).folder(tmp_path).exists()


def test_a_user_is_told_where_a_run_begins(tmp_path, caplog):
    with caplog.at_level("INFO", "fedvls"):
        run(tmp_path, job_of(3), job_of(5))
    assert caplog.messages == [f"{job_of(5).name} goes on from round 2 of {job_of(3).name}"]
