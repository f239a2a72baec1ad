"""Worker processes: messages to whoever is free, answers in order, memory that is reused."""

from __future__ import annotations

import resource
import time

import pytest
import torch

import fedvls
from fedvls.engines.allocation import keep_freed_memory
from fedvls.engines.workers import Workers


@pytest.fixture
def make():
    """Workers that end with the test."""
    made = []

    def workers(count, serve):
        made.append(Workers(count, serve))
        return made[-1]

    yield workers
    for one in made:
        one.close()


def test_answers_come_in_the_order_of_the_messages_whoever_is_faster(make):
    def serve(message):
        time.sleep(0.05 if message % 3 == 0 else 0)
        yield from range(message)

    assert make(3, serve).ask(range(8), "counting") == [list(range(n)) for n in range(8)]


def test_an_answer_larger_than_a_pipe_holds_arrives(make):
    workers = make(2, lambda message: iter([torch.full((500_000,), float(message))]))
    answers = workers.ask([1, 2, 3], "filling")
    assert [float(tensor.sum()) for (tensor,) in answers] == [5e5, 1e6, 1.5e6]


@pytest.mark.parametrize(
    ("error", "shown", "message"),
    [
        (fedvls.UsageError("a user's mistake"), fedvls.UsageError, "^a user's mistake$"),
        (ValueError("x"), RuntimeError, "ValueError: x"),
    ],
)
def test_an_error_in_a_worker_is_raised_in_the_parent_and_ends_all(make, error, shown, message):
    def serve(number):
        yield number
        if number == 1:
            raise error

    workers = make(2, serve)
    with pytest.raises(shown, match=message):
        workers.ask([0, 1, 2], "failing")
    assert workers._running == []


def page_faults(message):
    """Whether freed memory can be kept, and the page faults of making and freeing a tensor of 32 MB twenty times."""
    for times in (5, 20):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(times):
            torch.empty(8 * 2**20).fill_(1)
    yield resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    yield keep_freed_memory()


def test_workers_reuse_freed_memory_instead_of_mapping_it_anew(make, monkeypatch):
    ((reused, supported),) = make(1, page_faults).ask([None], "faulting")
    monkeypatch.setattr("fedvls.engines.workers.keep_freed_memory", lambda: False)
    ((mapped, _),) = make(1, page_faults).ask([None], "faulting")
    assert not supported or 10 * reused < mapped
