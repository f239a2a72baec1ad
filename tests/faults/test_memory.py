"""A long run: memory, open files and processes stay as they are after the first rounds."""

from __future__ import annotations

import os
import statistics
import tempfile

import pytest
import torch
from support import children, memory, open_files

import fedvls
from fedvls.engines.parallel import cores

ROUNDS, WARM_UP, SPAN = 60, 15, 10
BOUND = 3.0  # MiB in the 35 rounds between the early and the late ones: less than half a model of 0.18 MiB each


class Watch(fedvls.Callback):
    """Memory of the run's processes, their open files and their number, after every round."""

    def __init__(self) -> None:
        self.before = children(os.getpid())
        self.rounds: list[dict[str, float]] = []

    def on_round(self, record, timing):
        workers = sorted(children(os.getpid()) - self.before)
        found = {"parent": memory(os.getpid()), "processes": len(workers), "files": open_files(os.getpid())}
        found |= {f"worker {k}": memory(pid) for k, pid in enumerate(workers)}
        self.rounds.append(found)

    def assert_flat(self) -> None:
        """The median of late rounds is that of early ones, within the bound; single rounds may differ."""
        early, late = self.rounds[WARM_UP : WARM_UP + SPAN], self.rounds[-SPAN:]
        assert early[0].keys() == late[-1].keys(), "processes came or went"
        for what in early[0]:
            first, last = (statistics.median(found[what] for found in span) for span in (early, late))
            allowed = BOUND if what.startswith(("parent", "worker")) else 0
            assert last - first <= allowed, f"{what} grew from {first:.1f} to {last:.1f}"


class Leak(fedvls.Callback):
    """Holds on to something more after every round."""

    def __init__(self, make) -> None:
        self.make, self.held = make, []

    def on_round(self, record, timing):
        self.held.append(self.make())


def watched(stripes, method, engine, *others):
    """A run of 60 short rounds of four clients, watched. The model has 45,000 parameters: 0.18 MiB."""
    watch = Watch()
    fed = fedvls.Federation(stripes, partition=fedvls.iid(), clients=4, engine=engine, device="cpu")
    fed.run(method, ROUNDS, 1, batch_size=16, local_every=5, out=None, callbacks=[*others, watch])
    return watch


@pytest.mark.parametrize("engine", ["sequential", "parallel"])
@pytest.mark.parametrize("method", ["fedvls", "scaffold", "moon"])
def test_memory_files_and_processes_are_flat_over_sixty_rounds(stripes, method, engine):
    watch = watched(stripes, method, engine)
    assert len(watch.rounds) == ROUNDS
    watch.assert_flat()


def test_a_leak_of_one_model_per_round_would_be_seen(stripes):
    with pytest.raises(AssertionError, match="parent grew"):
        watched(stripes, "fedavg", "sequential", Leak(lambda: torch.ones(45_000))).assert_flat()


def test_a_leak_of_open_files_would_be_seen(stripes):
    leak = Leak(tempfile.TemporaryFile)
    with pytest.raises(AssertionError, match="files grew"):
        watched(stripes, "fedavg", "sequential", leak).assert_flat()
    for file in leak.held:
        file.close()


def test_a_leak_in_a_worker_would_be_seen(stripes):
    held = []

    def leaking(inputs):
        held.append(torch.ones(45_000))
        return torch.nn.functional.cross_entropy(inputs.logits, inputs.labels)

    if cores() > 1:
        with pytest.raises(AssertionError, match="worker 0 grew"):
            watched(stripes, fedvls.Method(fedvls.Term("leaking", leaking)), "parallel").assert_flat()
    assert held == []
