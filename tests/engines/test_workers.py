"""Worker processes: messages to whoever is free, answers in order, memory that is reused."""

from __future__ import annotations

import gc
import multiprocessing
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing

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


def page_faults_of_a_worker(keep):
    with pytest.MonkeyPatch.context() as patch:
        if not keep:
            patch.setattr("fedvls.engines.workers.keep_freed_memory", lambda: False)
        with closing(Workers(1, page_faults)) as workers:
            (answer,) = workers.ask([None], "faulting")
    return answer


def test_workers_reuse_freed_memory_instead_of_mapping_it_anew():
    # In a process of its own: this one's earlier tests may have left a hole of 32 MB, which workers would inherit.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
        (reused, supported), (mapped, _) = fresh.map(page_faults_of_a_worker, [True, False])
    assert not supported or 10 * reused < mapped


def test_a_collection_of_garbage_copies_nothing_of_the_parents(make):
    """It writes to whatever it looks at, and a forked process's page that is written to is copied."""
    parents = [[number] for number in range(300_000)]

    def serve(message):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        gc.collect()
        yield resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    [[faults]] = make(1, serve).ask([0], "collecting")
    pages = sum(map(sys.getsizeof, parents)) // resource.getpagesize()
    assert faults < pages / 10
