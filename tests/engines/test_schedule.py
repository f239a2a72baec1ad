"""Who steps with whom: every minibatch once, every client's own in order, whatever may be padded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fedvls
from fedvls.engines import ClientTask, RoundJob
from fedvls.engines.batches import batch_lengths, dropout_keys, epoch_batches
from fedvls.engines.schedule import blocks, by_length, minibatches
from fedvls.lift import products
from fedvls.models.network import ModelState
from fedvls.recipe import Recipe


def job(batch_size, epochs, max_steps=None):
    recipe = Recipe(epochs=epochs, batch_size=batch_size, max_steps=max_steps)
    return RoundJob(ModelState({}, {}, {}), fedvls.get_method("fedavg"), recipe, 3, 2)


def tasks(sizes):
    return [ClientTask(k, torch.arange(n), torch.ones(2)) for k, n in enumerate(sizes)]


@pytest.mark.parametrize(
    ("samples", "batch_norm", "expected"),
    [
        (10, False, [4, 4, 2]),
        (8, False, [4, 4]),
        (9, False, [4, 4, 1]),
        (9, True, [4, 5]),
        (1, True, [2]),
        (1, False, [1]),
        (5, True, [5]),
        (3, True, [3]),
    ],
)
def test_lengths_of_an_epochs_minibatches(samples, batch_norm, expected):
    """Batches of 4. Under BatchNorm a single sample joins the batch before it, or is seen twice."""
    assert batch_lengths(samples, 4, batch_norm=batch_norm) == expected
    orders = epoch_batches(samples, 4, seed=0, round=1, client=0, epoch=0, batch_norm=batch_norm)
    assert [len(order) for order in orders] == expected


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 23), min_size=1, max_size=6),
    batch_size=st.integers(2, 9),
    epochs=st.integers(1, 3),
    batch_norm=st.booleans(),
    padding=st.sampled_from(["any", "partial", "none"]),
    width=st.sampled_from([int, products.aligned, products.good_width]),
    max_steps=st.one_of(st.none(), st.integers(1, 6)),
)
def test_every_minibatch_is_taken_once_and_in_order(sizes, batch_size, epochs, batch_norm, padding, width, max_steps):
    given_job = job(batch_size, epochs, max_steps)
    chosen = by_length(given_job, tasks(sizes), batch_norm=batch_norm)
    padded = {"padding": padding, "width": width}
    batches = minibatches(given_job, chosen, range(epochs), batch_norm=batch_norm, dropout=True, **padded)
    starts = np.cumsum([0, *(task.samples for task in chosen)])
    taken = {k: [] for k in range(len(chosen))}
    keys = {k: [] for k in range(len(chosen))}
    for block in blocks(batches, batch_size, padding):
        for step in range(block.start, block.stop):
            for k in range(block.first, block.last):
                length = int(batches.lengths[k, step])
                assert 0 < length <= block.width
                assert block.padded or length == block.width
                rows = batches.rows[k, step]
                assert set(rows[length : block.width]) <= {rows[0]}
                taken[k].append((rows[:length] - starts[k]).tolist())
                keys[k].append(batches.keys[k, step].tolist())
    for k, task in enumerate(chosen):
        where = {"seed": 3, "round": 2, "client": task.client}
        orders = [
            epoch_batches(task.samples, batch_size, epoch=epoch, batch_norm=batch_norm, **where)
            for epoch in range(epochs)
        ]
        assert taken[k] == [order.tolist() for each in orders for order in each][:max_steps]
        expected = [dropout_keys(len(each), epoch=epoch, **where).tolist() for epoch, each in enumerate(orders)]
        assert keys[k] == [key for each in expected for key in each][:max_steps]


def test_epoch_by_epoch_is_the_same_as_all_at_once():
    """With augmentation every epoch is laid out by itself; `max_steps` counts across epochs all the same."""
    for max_steps in (None, 5):
        whole_job = job(4, 3, max_steps)
        chosen = by_length(whole_job, tasks([10, 7]), batch_norm=False)
        parts = [minibatches(whole_job, chosen, range(e, e + 1), batch_norm=False, padding="any") for e in range(3)]
        whole = minibatches(whole_job, chosen, range(3), batch_norm=False, padding="any")
        assert sum(int((p.lengths > 0).sum()) for p in parts) == int((whole.lengths > 0).sum())
        assert sum(int(p.collected.sum()) for p in parts) == int(whole.collected.sum())


def test_minibatches_are_made_as_wide_as_they_are_wanted():
    """Full ones of 10 samples, and those of a client with 3, for which 8 are laid out; a model may want any width."""
    given_job = job(10, 1)
    batches = minibatches(
        given_job, tasks([50, 3]), range(1), batch_norm=False, padding="any", width=lambda samples: samples + 6
    )
    assert batches.widths.tolist() == [16, 14]
    assert batches.rows.shape[2] == 16


def test_a_stack_shrinks_as_clients_finish():
    """Sizes 12, 8 and 4 in batches of 4: three clients take a step, then two, then one."""
    given_job = replace(job(4, 1))
    chosen = by_length(given_job, tasks([4, 12, 8]), batch_norm=False)
    assert [task.samples for task in chosen] == [12, 8, 4]
    batches = minibatches(given_job, chosen, range(1), batch_norm=False, padding="any")
    assert [(b.first, b.last, b.start, b.stop) for b in blocks(batches, 4, "any")] == [
        (0, 3, 0, 1),
        (0, 2, 1, 2),
        (0, 1, 2, 3),
    ]
