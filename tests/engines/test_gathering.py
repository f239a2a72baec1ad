"""On a CPU what a block's steps read is laid out at once: the minibatches that single steps would gather."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fedvls
from fedvls.engines import ClientTask, RoundJob
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
def test_every_step_is_what_it_would_gather_by_itself(held, padding):
    tensors, cut = held(padding)
    names, widths = ("x", "y", "teacher_logits"), set()
    for block in cut:
        laid_out = Gathering(tensors, names, block)
        for number in range(block.start, block.stop):
            step, own = torch.tensor([number]), slice(block.first, block.last)
            expected, found = gathered(tensors, names, step, own, block.width), laid_out.at(number)
            assert found.keys() - expected.keys() == {"padding", "real"}
            for name, value in expected.items():
                assert torch.equal(found[name], value), name
            inputs = LossInputs(logits=found["x"], labels=found["y"], sample_mask=found["mask"], client=None)
            assert torch.equal(found["padding"], inputs.padding)
            assert torch.equal(found["real"], inputs.real)
        widths.add(block.width)
    assert sum(block.stop - block.start for block in cut) > len(cut)  # one of them has several steps
    assert (len(widths) > 1) == (padding != "partial")
