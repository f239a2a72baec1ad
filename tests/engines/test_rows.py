"""Rows that wait: brought up to date late, they are where they would be had they never waited."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import assert_close, hand_made

import fedvls
from fedvls.augment import get_augmentation
from fedvls.data.resident import ResidentData
from fedvls.engines import parallel, stack
from fedvls.engines.base import ClientTask, RoundJob
from fedvls.engines.rows import EVEN, Waiting, WaitingRows, renumbered
from fedvls.engines.sequential import SequentialEngine
from fedvls.engines.stacked import StackedEngine
from fedvls.numerics import repeatable
from fedvls.recipe import Recipe
from fedvls.steps import sam

CPU = torch.device("cpu")
TOLERANCE = {"float64": 1e-9, "float32": 1e-4}
METHODS = ["fedavg", "fedprox", "fedsam", "fedgf", "fedlc", "fedntd", "fedlmd", "fedexp", "fedvls", "fedvls+fedsam"]
DENSE = ["scaffold", "feddyn", "mofedsam"]


def dense(recipe, pull, steps, w, v, w0):
    """One step after another, as PyTorch's SGD takes them; and the sum of the pull's values."""
    cost = 0.0
    for _ in range(steps):
        cost += pull / 2 * float((w - w0).square().sum())
        v = recipe.momentum * v + recipe.weight_decay * w + pull * (w - w0)
        w = w - recipe.lr * v
    return w, v, cost


@settings(max_examples=200, deadline=None)
@given(
    lr=st.floats(1e-4, 0.5),
    momentum=st.floats(0, 0.99),
    decay=st.sampled_from([0.0, 1e-5, 0.1]),
    pull=st.sampled_from([0.0, 0.01, 1.0]),
    steps=st.integers(0, 200),
    seed=st.integers(0, 9),
)
def test_waiting_equals_the_steps_one_by_one(lr, momentum, decay, pull, steps, seed):
    recipe = Recipe(lr=lr, momentum=momentum, weight_decay=decay)
    w, v, w0 = torch.from_numpy(np.random.default_rng(seed).normal(size=(3, 1, 4)))
    wanted_w, wanted_v, wanted_cost = dense(recipe, pull, steps, w, v, w0)
    waiting, waited = Waiting.of(recipe, pull, steps), torch.tensor([steps])
    z = (w - w0, v, w0) if pull else (w, v)
    p, moving = waiting.moved(waited, *z)
    found = p + w0 if pull else p
    size = max(float(t.abs().max()) for t in (w, v, w0, wanted_w, wanted_v))
    assert (found - wanted_w).abs().max() <= 1e-12 * size
    assert (moving - wanted_v).abs().max() <= 1e-12 * size
    if pull:
        assert float(waiting.cost(waited, *z)) == pytest.approx(wanted_cost, rel=1e-11)


@pytest.mark.parametrize("pull", [0.0, 0.3])
def test_rows_taken_at_any_steps_end_where_all_rows_updated_at_every_step_end(pull):
    """Two clients of 6 rows: row 0 is padding, 5 is never touched, others in the first, the last or several steps."""
    recipe, steps, draw = Recipe(lr=0.2, momentum=0.8, weight_decay=0.05), 4, torch.Generator().manual_seed(0)
    received = torch.randn(6, 3, generator=draw, dtype=torch.float64)
    began = torch.randn(2, 6, 3, generator=draw, dtype=torch.float64)
    batches = torch.tensor([[[1, 1, 0]], [[2, 3, 0]], [[0, 0, 0]], [[4, 2, 2]]]).unsqueeze(1).repeat(1, 2, 1, 1)
    weights, velocity = torch.empty_like(began), began.clone()
    rows = WaitingRows("vectors", received, weights, velocity, Waiting.of(recipe, pull, steps))
    w, v, costs = received.repeat(2, 1, 1), began.clone(), torch.zeros(2, dtype=torch.float64)
    for step, batch in enumerate(batches):
        own = slice(0, 2 if step < 3 else 1)  # the second client has one step less
        taken = rows.take(own, batch[own], step)
        gradient = torch.zeros_like(w)
        for k in range(own.stop):
            tokens = batch[k].unique()
            gradient[k, tokens] = torch.randn(len(tokens), 3, generator=draw, dtype=torch.float64)
            numbers = taken.minibatch[k].unique()
            torch.testing.assert_close(taken.weights[k, numbers], w[k, tokens], rtol=1e-13, atol=1e-14)
            taken.gradient[k] = 0
            taken.gradient[k, numbers] = gradient[k, tokens]
            if pull:
                touched = [0, *(int(t) for t in tokens if t)]  # padding is among the rows taken
                rest = [t for t in range(6) if t not in touched]
                costs[k] += pull / 2 * (w[k, rest] - received[rest]).square().sum()
        for some, slope, moving, origin in [
            (w[own], gradient[own], v[own], received),
            (taken.weights, taken.gradient, taken.velocity, taken.received),
        ]:
            more = pull * (some - origin) if origin is not None else 0
            moving.mul_(recipe.momentum).add_(slope + recipe.weight_decay * some + more)
            some.sub_(recipe.lr * moving)
        taken.put_back()
    found = rows.finish(np.array([4, 3]))
    torch.testing.assert_close(weights, w, rtol=1e-13, atol=1e-14)
    torch.testing.assert_close(velocity, v, rtol=1e-13, atol=1e-14)
    torch.testing.assert_close(found, costs, rtol=1e-12, atol=0)


def test_a_minibatch_in_numbers_of_its_own_tokens():
    """By hand: client 0 has tokens 0, 2 and 7, client 1 has 5 and no padding, which keeps number 0 all the same."""
    tokens = torch.tensor([[[7, 2, 0], [2, 2, 7]], [[5, 5, 5], [5, 5, 5]]])
    vocabulary, numbers = renumbered(tokens, 8)
    assert vocabulary.tolist() == [[0, 2, 7] + [8] * (EVEN - 3), [0, 5] + [8] * (EVEN - 2)]
    assert numbers.tolist() == [[[2, 1, 0], [1, 1, 2]], [[1, 1, 1], [1, 1, 1]]]


def words(samples=60, length=7, vocabulary=40):
    """Token 1 is in every text, twice in some, 38 in one text, 39 in none; text 0 is nothing but padding."""
    random = np.random.RandomState(0)
    x, y = random.randint(2, 38, (samples, length)), np.arange(samples) % 4
    x[:, 0], x[::3, 1], x[7, 2], x[:, 5:], x[0] = 1, 1, 38, 0, 0
    return fedvls.FederatedData.from_arrays(x, y, x[:8], y[:8], name="words", vocabulary=vocabulary)


UNEQUAL = hand_made([*range(1, 30)], [0], [*range(30, 41)], [*range(41, 60)])


def federation(engine, dtype="float64", model="fasttext"):
    return fedvls.Federation(
        words(), partition=UNEQUAL, clients=4, model=model, engine=engine, dtype=dtype, device="cpu"
    )


def trained(engine, method="fedvls", dtype="float64", rounds=2, epochs=3, model="fasttext", **recipe):
    recipe = {"batch_size": 5, "lr": 0.3, "weight_decay": 0.01} | recipe
    return federation(engine, dtype, model).run(method, rounds, epochs, out=None, local_every=100, **recipe)


@pytest.fixture
def waited(monkeypatch):
    """Steps taken with rows that wait. In this process: workers would count in their own."""
    monkeypatch.setattr(parallel, "cores", lambda: 1)
    steps = []

    class Counted(WaitingRows):
        def take(self, *given):
            steps.append(1)
            return super().take(*given)

    monkeypatch.setattr(stack, "WaitingRows", Counted)
    return steps


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("method", METHODS)
def test_local_updates_end_with_the_sequential_engines_weights(method, dtype, waited):
    """Three rounds: what FedGF's server sends depends on the two before."""
    theirs, mine = (trained(engine, method, dtype, rounds=3) for engine in ("sequential", "stacked"))
    assert_close(mine.weights.tensors(), theirs.weights.tensors(), TOLERANCE[dtype])
    losses = ([record["train_loss"] for record in result.records] for result in (mine, theirs))
    assert next(losses) == pytest.approx(next(losses), rel=TOLERANCE[dtype])
    assert waited


@pytest.mark.parametrize(
    "method", [*DENSE, fedvls.get_method("fedprox").with_(step=sam(0.5))], ids=[*DENSE, "fedprox with sam"]
)
def test_methods_whose_steps_move_every_row_update_every_row(method, waited):
    """The last: with a pull no row's gradient is 0, and FedSAM's norm is over all of them."""
    theirs, mine = (trained(engine, method).weights.tensors() for engine in ("sequential", "stacked"))
    assert_close(mine, theirs, 1e-9)
    assert not waited


@pytest.mark.parametrize(
    "recipe",
    [
        {"batch_size": 1},
        {"batch_size": 64},
        {"momentum": 0.0},
        {"weight_decay": 0.0},
        {"momentum": 0.0, "weight_decay": 0.0},
        {"persistent_momentum": True},
        {"participation": 0.5},
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["fedavg", "fedprox"])
def test_every_recipe_agrees_with_the_sequential_engine(method, recipe, waited):
    theirs, mine = (trained(engine, method, **recipe).weights.tensors() for engine in ("sequential", "stacked"))
    assert_close(mine, theirs, 1e-9)
    assert waited


@pytest.mark.parametrize("method", ["fedavg", "fedprox"])
def test_updates_that_stop_early_agree_with_the_sequential_engine(method):
    """After 4 minibatches, of which the smallest client has 3."""
    made, resident, nothing = federation("stacked"), ResidentData(words(), CPU, torch.float64), get_augmentation("none")
    network, recipe = made.network, Recipe(epochs=3, batch_size=5, lr=0.3, max_steps=4)
    job = RoundJob(network.start(CPU, torch.float64), fedvls.get_method(method), recipe, seed=0, round=1)
    labels = resident.y_train
    tasks = [
        ClientTask(k, torch.from_numpy(own), torch.bincount(labels[own], minlength=4).double())
        for k, own in enumerate(made.split.indices)
    ]
    theirs, mine = (kind(network, resident, nothing).train(job, tasks) for kind in (SequentialEngine, StackedEngine))
    assert [update.steps for update in mine] == [update.steps for update in theirs] == [4, 3, 4, 4]
    for one, other in zip(mine, theirs, strict=True):
        assert_close(one.state.tensors(), other.state.tensors(), 1e-9)
        assert one.loss == pytest.approx(other.loss, rel=1e-9)


def test_a_pull_of_weight_0_changes_no_bit():
    built = fedvls.get_method("fedprox", mu=0.0)
    one, other = (trained("stacked", method, "float32").weights.tensors() for method in ("fedavg", built))
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("dimension", [32, 17])
@pytest.mark.parametrize("method", ["fedvls", "fedprox", "fedsam", "fedgf", "mofedsam"])
def test_same_seed_same_bits_whatever_the_number_of_workers(method, dimension, monkeypatch):
    model = {"name": "fasttext", "dimension": dimension}
    found = []
    for count in (1, 1, 2, 3):
        monkeypatch.setattr(parallel, "cores", lambda count=count: count)
        found.append(trained("stacked", method, "float32", model=model).weights.tensors())
    for other in found[1:]:
        assert all(torch.equal(tensor, other[name]) for name, tensor in found[0].items())


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 20), st.integers(0, 20), st.integers(0, 2**31))
def test_zeros_behind_a_clients_rows_do_not_change_a_sum_over_them(dimension, own, more, seed):
    """Their number depends on who shares the stack; norms of FedSAM's kind are sums over all."""
    rows = torch.randn(own * EVEN * dimension, generator=torch.Generator().manual_seed(seed))
    padded = torch.cat([rows, torch.zeros(more * EVEN * dimension)])
    with repeatable(CPU, 1, "float32"):  # one thread, as workers have
        assert torch.equal(rows.unsqueeze(0).sum(-1)[0], padded.expand(2, -1).contiguous().sum(-1)[1])


@pytest.mark.parametrize("method", ["fedprox", "fedvls"])
def test_a_run_resumed_midway_ends_with_the_same_bits(method, tmp_path):
    class Stop(fedvls.Callback):
        def on_round(self, record, timing):
            if record["round"] == 2:
                raise KeyboardInterrupt

    recipe = {"persistent_momentum": True, "batch_size": 5, "lr": 0.3}
    whole = federation("stacked", "float32").run(method, 4, 2, out=None, **recipe).weights.tensors()
    with pytest.raises(KeyboardInterrupt):
        federation("stacked", "float32").run(method, 4, 2, out=tmp_path / "run", callbacks=[Stop()], **recipe)
    resumed = federation("stacked", "float32").run(method, 4, 2, out=tmp_path / "run", **recipe).weights.tensors()
    assert all(torch.equal(tensor, resumed[name]) for name, tensor in whole.items())
