"""On a CPU the same clients' inputs are normalised once, as long as nothing about them changes."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
import torch
from support import small_mlp

import fedvls
from fedvls.augment import Augmentation, get_augmentation
from fedvls.data.resident import ResidentData
from fedvls.engines import ClientTask, RoundJob, parallel, stacked
from fedvls.engines.samples import Samples
from fedvls.models import Network
from fedvls.recipe import Recipe


@pytest.fixture
def made(monkeypatch):
    """Samples, and for some clients and an epoch of a round their inputs and how often images were normalised."""
    random = np.random.RandomState(0)
    x, y = random.randint(0, 256, (30, 1, 4, 4), dtype=np.uint8), np.arange(30) % 5
    data = fedvls.FederatedData.from_arrays(x, y, x, y, name="few", mean=(0.4,), std=(0.3,))
    network = Network(small_mlp(), 5)
    resident = ResidentData(data, torch.device("cpu"), torch.float32)
    work: list[int] = []
    original = Samples._in_cache
    monkeypatch.setattr(Samples, "_in_cache", lambda self, *given: work.append(1) or original(self, *given))
    start = network.start(resident.device, torch.float32)

    def of(augmentation: Augmentation):
        samples = Samples(network, resident, augmentation)

        def inputs(clients, round_index, epoch):
            job = RoundJob(start, fedvls.get_method("fedavg"), Recipe(), 0, round_index)
            tasks = [ClientTask(k, torch.arange(10 * k, 10 * k + 10), torch.ones(5)) for k in clients]
            return samples.prepare(job, tasks, epoch)["x"].clone()

        return inputs, work, resident

    return of


def test_the_same_clients_inputs_are_made_once_and_others_anew(made):
    inputs, work, resident = made(get_augmentation("none"))
    for count, clients in enumerate([(0, 1), (1, 0), (1, 2), (1,), (0, 1)], start=1):
        expected = torch.cat([resident.normalised(resident.stored(torch.arange(10 * k, 10 * k + 10))) for k in clients])
        for round_index, epoch in ((1, 0), (1, 1), (2, 0)):
            assert torch.equal(inputs(clients, round_index, epoch), expected)
        assert len(work) == count


def test_augmented_images_are_made_for_every_epoch(made):
    inputs, work, _ = made(get_augmentation("crop"))
    first, again, epoch, later = (inputs((0, 1), *when) for when in ((1, 0), (1, 0), (1, 1), (2, 0)))
    assert len(work) == 4
    assert torch.equal(first, again)
    assert not torch.equal(first, epoch)
    assert not torch.equal(first, later)


def test_other_clients_inputs_are_gone_before_the_next_are_made(stripes, monkeypatch):
    """Of a round, and of the stack before: never are there two."""
    made, alive, original = [], [], Samples._in_cache

    def watched(self, *given):
        alive.append(sum(one() is not None for one in made))
        found = original(self, *given)
        made.append(weakref.ref(found))
        return found

    monkeypatch.setattr(Samples, "_in_cache", watched)
    monkeypatch.setattr(parallel, "cores", lambda: 1)
    monkeypatch.setattr(stacked, "clients_that_fit", lambda *_: 2)
    fed = fedvls.Federation(
        stripes, clients=8, partition=fedvls.iid(), model=small_mlp(), engine="stacked", device="cpu"
    )
    fed.run("fedvls", 3, 2, participation=0.5, batch_size=5, out=None, local_every=100)
    assert alive == [0] * 6
