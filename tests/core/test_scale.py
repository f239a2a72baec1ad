"""Thousands of clients: what is kept is what a method keeps, and memory is that of the data and the cohort."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from safetensors import safe_open

import fedvls
from fedvls.loop import RoundLoop

CLIENTS, COHORT = 2000, 20


@pytest.fixture(scope="module")
def many() -> fedvls.FederatedData:
    """Two samples of four values for each of 2,000 clients."""
    random = np.random.RandomState(0)
    x, y = random.normal(size=(2 * CLIENTS, 4)).astype(np.float32), np.arange(2 * CLIENTS) % 5
    return fedvls.FederatedData.from_arrays(x, y, x[:50], y[:50], name="many")


@pytest.fixture
def loops(monkeypatch):
    """The round loops of the test, for a look at their state."""
    seen = []
    complete = RoundLoop.complete
    monkeypatch.setattr(RoundLoop, "complete", lambda loop: (seen.append(loop), complete(loop))[1])
    return seen


def run(data, method="fedavg", clients=CLIENTS, out=None, engine="sequential", rounds=3):
    fed = fedvls.Federation(data, partition=fedvls.iid(), clients=clients, engine=engine, device="cpu")
    return fed.run(method, rounds, 1, participation=COHORT / clients, out=out)


@pytest.mark.parametrize("engine", ["sequential", "parallel"])
def test_nothing_is_kept_of_clients_by_a_method_that_keeps_nothing(many, loops, tmp_path, engine):
    run(many, "fedavg", out=tmp_path / "run", engine=engine)
    (loop,) = loops
    assert list(loop.states.items()) == []
    assert loop.split.counts.shape == (CLIENTS, 5)
    assert sum(len(own) for own in loop.split.indices) == 2 * CLIENTS
    for path in (tmp_path / "run" / "checkpoint").glob("*.safetensors"):
        with safe_open(path, "pt") as file:
            assert {name.split("/")[0] for name in file.keys()} == {"model"}  # noqa: SIM118 (no dictionary)


def test_a_method_that_keeps_something_keeps_it_of_those_who_took_part(many, loops):
    result = run(many, "scaffold")
    took_part = {client for record in result.records for client in record["cohort"]}
    assert COHORT < len(took_part) <= 3 * COHORT
    assert {client for client, _ in loops[0].states.items()} == took_part


def test_a_round_is_recorded_in_the_size_of_its_cohort(many):
    few, all_of_them = (run(many, clients=clients).records for clients in (COHORT, CLIENTS))
    for small, large in zip(few, all_of_them, strict=True):
        assert len(small["cohort"]) == len(large["cohort"]) == COHORT
        assert small.keys() == large.keys()
    assert len(few[-1]["local"]["clients"]) == len(all_of_them[-1]["local"]["clients"]) == COHORT


def kept_by_a_run(data, clients):
    """Bytes that a federation and its run still hold after two rounds."""
    tracemalloc.start()
    try:
        fed = fedvls.Federation(data, partition=fedvls.iid(), clients=clients, engine="sequential", device="cpu")
        held = []

        class Look(fedvls.Callback):
            def on_round(self, record, timing):
                held.append(tracemalloc.get_traced_memory()[0])

        fed.run("fedavg", 2, 1, participation=COHORT / clients, local_every=10, out=None, callbacks=[Look()])
        return held[0]
    finally:
        tracemalloc.stop()


def test_a_client_more_costs_less_than_a_kilobyte(many):
    """Its index array, its row of counts, and its lines in the header: no model, no state, no task."""
    kept_by_a_run(many, COHORT)  # what is imported or cached at the first time is not a client's
    few, all_of_them = kept_by_a_run(many, COHORT), kept_by_a_run(many, CLIENTS)
    assert all_of_them - few < 1024 * (CLIENTS - COHORT)
