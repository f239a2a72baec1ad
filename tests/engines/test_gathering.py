"""On a CPU what a block's steps read is laid out at once: the minibatches that single steps would gather."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support import small_mlp

import fedvls
from fedvls.engines import ClientTask, RoundJob, gathering, parallel
from fedvls.engines.gathering import Gathering, gathered
from fedvls.engines.schedule import blocks, minibatches
from fedvls.losses.term import LossInputs
from fedvls.recipe import Recipe

SIZES = (100, 33, 16, 9, 1)


@pytest.fixture(scope="module")
def held():
    """What a stack holds of some clients for two epochs, and the blocks its steps are cut into."""

    def of(padding):
        tasks, first = [], 0
        for k, size in enumerate(SIZES):
            tasks.append(ClientTask(k, torch.arange(first, first + size), torch.ones(4)))
            first += size
        job = RoundJob({}, fedvls.get_method("fedvls"), Recipe(batch_size=16), 0, 1)
        batches = minibatches(job, tasks, range(2), batch_norm=False, padding=padding)
        random = np.random.RandomState(0)
        samples = {
            "x": random.rand(first, 2, 3),
            "y": random.randint(0, 4, first),
            "teacher_logits": random.rand(first, 4),
        }
        held = {name: torch.from_numpy(value) for name, value in samples.items()}
        held |= {n: torch.from_numpy(getattr(batches, n)).transpose(0, 1).contiguous() for n in ("rows", "lengths")}
        held["positions"] = torch.arange(batches.rows.shape[2])
        return held, list(blocks(batches, 16, padding))

    return of


@pytest.mark.parametrize("padding", ["any", "partial", "none"])
def test_every_step_is_what_it_would_gather_by_itself(held, padding, monkeypatch):
    monkeypatch.setattr(gathering, "AT_ONCE", 2)
    tensors, cut = held(padding)
    names, widths = ("x", "y", "teacher_logits"), set()
    for block in cut:
        for number in range(block.start, block.stop):
            if (number - block.start) % 2 == 0:
                laid_out = Gathering(tensors, names, block, number)
            assert number in laid_out.steps
            step, own = torch.tensor([number]), slice(block.first, block.last)
            expected, found = gathered(tensors, names, step, own, block.width), laid_out.at(number)
            assert found.keys() - expected.keys() == {"padding", "real"}
            for name, value in expected.items():
                assert torch.equal(found[name], value), name
            inputs = LossInputs(logits=found["x"], labels=found["y"], sample_mask=found["mask"], client=None)
            assert torch.equal(found["padding"], inputs.padding)
            assert torch.equal(found["real"], inputs.real)
        assert block.stop not in laid_out.steps
        widths.add(block.width)
    assert sum(block.stop - block.start for block in cut) > len(cut) + 2  # some of them have several steps
    assert (len(widths) > 1) == (padding != "partial")


def test_how_many_steps_are_laid_out_at_once_changes_no_bit(stripes, monkeypatch):
    def weights():
        fed = fedvls.Federation(stripes, clients=3, model=small_mlp(), engine="stacked", device="cpu")
        return fed.run("fedvls", 2, 2, batch_size=5, out=None).weights.tensors()

    monkeypatch.setattr(parallel, "cores", lambda: 1)
    expected, made, original = weights(), [], Gathering.__init__
    monkeypatch.setattr(Gathering, "__init__", lambda self, *given: made.append(given[-1]) or original(self, *given))
    counts = []
    for steps in (256, 3):
        monkeypatch.setattr(gathering, "AT_ONCE", steps)
        made.clear()
        found = weights()
        assert all(torch.equal(tensor, expected[name]) for name, tensor in found.items())
        counts.append(len(made))
    assert counts[1] > counts[0]
