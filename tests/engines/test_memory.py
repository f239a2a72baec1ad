"""How much of a GPU's memory a run plans with, and what it says when there is none left."""

from __future__ import annotations

import pytest
import torch

from fedvls import Federation, RunError
from fedvls.engines.memory import free_memory, give_back, is_lost, runs_at_once, settle
from fedvls.loop import RoundLoop

GIB = 2**30
GPU = torch.device("cuda")


@pytest.fixture
def gpu(monkeypatch):
    """A GPU of 90 GiB, of which so many are free and so many are this process's reserve."""

    def with_memory(free, reserved=0, allocated=0):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (free * GIB, 90 * GIB))
        monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: reserved * GIB)
        monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: allocated * GIB)

    return with_memory


def test_a_run_alone_plans_with_two_thirds_of_what_is_free(gpu):
    gpu(free=60)
    assert free_memory(GPU) == 40 * GIB
    gpu(free=57, reserved=5, allocated=2)
    assert free_memory(GPU) == 40 * GIB


def test_runs_that_find_the_same_memory_free_do_not_plan_with_more_than_there_is(gpu, monkeypatch):
    monkeypatch.setenv("FEDVLS_RUNS", "4")
    gpu(free=90)
    assert free_memory(GPU) == pytest.approx(0.9 * 90 / 4 * GIB)
    assert 4 * free_memory(GPU) < 90 * GIB


def test_what_others_have_taken_counts_where_it_is_more_than_their_share(gpu, monkeypatch):
    monkeypatch.setenv("FEDVLS_RUNS", "2")
    gpu(free=6)
    assert free_memory(GPU) == 4 * GIB


@pytest.mark.parametrize(("told", "runs"), [("3", 3), ("", 1), ("0", 1), ("many", 1), ("-2", 1)])
def test_a_number_that_makes_no_sense_is_one_run(monkeypatch, told, runs):
    monkeypatch.setenv("FEDVLS_RUNS", told)
    assert runs_at_once() == runs


def test_a_full_gpu_is_one_line_and_the_run_goes_on_from_its_checkpoint(gpu, monkeypatch, tmp_path):
    gpu(free=1, reserved=30)
    trained = RoundLoop._round

    def full_in_round_two(loop, round):
        if round == 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 16.00 MiB.")
        return trained(loop, round)

    federation = Federation("digits", clients=2, device="cpu")
    with monkeypatch.context() as full:
        full.setattr(RoundLoop, "_round", full_in_round_two)
        with pytest.raises(RunError, match="of 90 GiB this run has 30 and other programs 59; set FEDVLS_RUNS") as told:
            federation.run("fedavg", rounds=3, epochs=1, out=tmp_path / "run")
    assert "\n" not in str(told.value)
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 1
    assert [r["round"] for r in federation.run("fedavg", rounds=3, epochs=1, out=tmp_path / "run").records] == [1, 2, 3]


def test_a_gpu_too_full_for_the_data_is_one_line(gpu, monkeypatch):
    gpu(free=0, reserved=1)

    def no_room(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 586.00 MiB.")

    monkeypatch.setattr("fedvls.federation.ResidentData", no_room)
    with pytest.raises(RunError, match="of 90 GiB this run has 1 and other programs 89;"):
        Federation("digits", clients=2, device="cpu")


def test_a_failure_that_shows_again_while_waiting_for_the_gpu_is_not_told_twice(monkeypatch):
    waited = []

    def synchronize(device):
        waited.append(device)
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)
    settle(torch.device("cpu"))
    assert waited == []
    settle(GPU)
    assert waited == [GPU]


@pytest.mark.parametrize("failed", [False, True])
def test_a_gpu_that_has_failed_is_noticed_and_giving_memory_back_to_it_raises_nothing(monkeypatch, failed):
    asked = []

    def operation():
        asked.append(1)
        if failed:
            raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", operation)
    monkeypatch.setattr(torch.cuda, "empty_cache", operation)
    give_back()
    assert is_lost() == failed
    assert len(asked) == 2


def test_a_run_gives_its_freed_memory_back_so_that_the_next_one_can_capture_steps(stripes, monkeypatch):
    given = []
    monkeypatch.setattr("fedvls.loop.give_back", lambda: given.append(1))
    Federation(stripes, clients=2, model="mlp").run("fedavg", 1, 1, out=None)
    assert given == [1]
