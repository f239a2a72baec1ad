"""Captured steps without a GPU: the logic of stacks and slots in graphs of a CPU (`graphs.py`)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from support import assert_close, batch_norm_net, dropout_net, small_mlp
from torch import nn

import fedvls
from engines.graphs import Graph, Replayed
from fedvls import methods  # noqa: F401  (registers them)
from fedvls.augment import get_augmentation
from fedvls.data.resident import ResidentData
from fedvls.engines import ClientTask, RoundJob, choice, graphed, stack, stacked
from fedvls.engines.graphed import GraphedEngine
from fedvls.engines.sequential import SequentialEngine
from fedvls.engines.stacked import StackedEngine
from fedvls.lift import Vectorised
from fedvls.lift.chain import Chain
from fedvls.method import METHODS
from fedvls.models import Network, chain
from fedvls.recipe import Recipe

NAMES = [entry.name for entry in METHODS if entry.build.__module__.startswith("fedvls.")]
MODELS: dict[str, Callable[[], nn.Module]] = {
    "mlp": small_mlp,
    "batch norm": batch_norm_net,
    "dropout": dropout_net,
}
CASES = [
    ("stacked", "mlp"),
    ("stacked", "batch norm"),
    ("stacked", "dropout"),
    ("graphed", "batch norm"),
    ("graphed", "dropout"),
]


class Stream:
    """Does nothing: here one thing is done after another."""

    def wait_stream(self, other):
        pass


@pytest.fixture
def captured(monkeypatch):
    """The engines that capture, in this process; gives the graphs they make."""
    monkeypatch.setattr(Replayed, "graphs", [], raising=False)
    monkeypatch.setattr(stack, "Replay", Replayed)
    monkeypatch.setattr(stacked, "lift", lifted_as_on_cuda)
    monkeypatch.setattr(stacked, "clients_that_fit", lambda *_: 3)
    monkeypatch.setattr(graphed, "clients_that_fit", lambda *_: 3)
    for name, stand_in in (("Stream", lambda *_: Stream()), ("stream", nullcontext), ("current_stream", Stream)):
        monkeypatch.setattr(torch.cuda, name, lambda *_, stand_in=stand_in: stand_in())
    for engine in (StackedEngine, GraphedEngine):
        monkeypatch.setitem(choice.ENGINES, f"captured {engine.name}", engine)
    return Replayed.graphs


def lifted_as_on_cuda(network, samples, dtype):
    parts = chain.parts(network.prototype)
    return Vectorised(network, samples) if parts is None else Chain(parts.layers, parts.embedding)


def weights(data, method, engine, kind="mlp", **more):
    values = {"classifier_rounds": 2} if method == "fedconcat" else {}
    fed = fedvls.Federation(
        data,
        partition=fedvls.dirichlet(beta=0.5, min_size=5),
        clients=6,
        model=MODELS[kind](),
        engine=engine,
        dtype="float64",
        device="cpu",
    )
    settings = {"batch_size": 6, "participation": 0.67, "local_every": 100, "out": None, **more}
    return fed.run(fedvls.get_method(method, **values), 3, 3, **settings).weights.tensors()


@pytest.mark.parametrize(("engine", "kind"), CASES)
@pytest.mark.parametrize("name", NAMES)
def test_replayed_rounds_end_with_the_sequential_engines_weights(stripes, name, engine, kind, captured):
    """Four of six clients a round, three at a time: samples, labels, what clients keep and what the server sends change
    under graphs that are there already."""
    theirs = weights(stripes, name, "sequential", kind)
    assert_close(weights(stripes, name, f"captured {engine}", kind), theirs, 1e-9)
    assert captured


@pytest.mark.parametrize(
    "more",
    [
        {"batch_size": 16},  # minibatches of several widths
        {"persistent_momentum": True},
        {"momentum": 0.0},
        {"participation": 0.17},
    ],
    ids=str,
)
@pytest.mark.parametrize(("engine", "kind"), CASES)
def test_every_recipe_is_replayed_too(stripes, engine, kind, more, captured):
    theirs = weights(stripes, "fedvls", "sequential", kind, **more)
    assert_close(weights(stripes, "fedvls", f"captured {engine}", kind, **more), theirs, 1e-9)
    assert captured


@pytest.mark.parametrize("engine", ["stacked", "graphed"])
@pytest.mark.parametrize("name", ["fedvls", "fedntd", "fedvls+fedsam"])
def test_a_teacher_in_train_mode_is_replayed_too(stripes, name, engine, captured):
    theirs = weights(stripes, name, "sequential", "batch norm", teacher_mode="train")
    assert_close(weights(stripes, name, f"captured {engine}", "batch norm", teacher_mode="train"), theirs, 1e-9)
    assert captured


class Stop(fedvls.Callback):
    def on_round(self, record, timing):
        raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["fedvls", "moon", "scaffold"])
def test_a_run_resumes_across_captured_engines(stripes, tmp_path, name, captured):
    """A round each by two of them, the rest by the sequential engine; what clients keep goes from one to the next."""

    def run(engine, **more):
        fed = fedvls.Federation(
            stripes, clients=4, model=batch_norm_net(), engine=engine, dtype="float64", device="cpu"
        )
        return fed.run(name, 4, 2, batch_size=6, **more).weights.tensors()

    for engine in ("captured stacked", "captured graphed"):
        captured.clear()
        with pytest.raises(KeyboardInterrupt):
            run(engine, out=tmp_path / "run", callbacks=[Stop()])
        assert captured
    assert_close(run("sequential", out=tmp_path / "run"), run("sequential", out=None), 1e-9)


class SeesTheBatch(nn.Module):
    """Says of a sample what depends on its company, so that minibatches cannot be padded."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        x = x.flatten(1)
        return self.head(x - x.mean(0))


@pytest.mark.parametrize("engine", ["stacked", "graphed"])
def test_minibatches_of_every_width_have_graphs_of_their_own(stripes, engine, captured, monkeypatch):
    model = SeesTheBatch()
    monkeypatch.setitem(MODELS, "sees the batch", lambda: model)
    theirs = weights(stripes, "fedavg", "sequential", "sees the batch")
    assert_close(weights(stripes, "fedavg", f"captured {engine}", "sees the batch"), theirs, 1e-9)
    assert captured


@pytest.mark.parametrize("engine", ["stacked", "graphed"])
def test_images_that_change_every_epoch_are_found_where_the_last_ones_were(engine, captured):
    random = np.random.RandomState(0)
    x, y = random.randint(0, 256, (90, 3, 8, 8), dtype=np.uint8), np.arange(90) % 3
    data = fedvls.FederatedData.from_arrays(x, y, x[:9], y[:9], name="noise", mean=(0.5,) * 3, std=(0.2,) * 3)
    found = []
    for each in ("sequential", f"captured {engine}"):
        fed = fedvls.Federation(
            data, partition=fedvls.iid(), clients=3, augmentation="cifar", engine=each, dtype="float64", device="cpu"
        )
        found.append(fed.run("fedvls", 2, 3, batch_size=8, out=None).weights.tensors())
    assert_close(found[1], found[0], 1e-9)
    assert captured


def test_a_step_is_captured_anew_when_rates_or_what_is_sent_are_others(stripes, captured):
    """What the server sends comes, goes and comes again; graphs that know nothing of it, or too much, are of no use."""
    network, data = Network(small_mlp(), 5), ResidentData(stripes, torch.device("cpu"), torch.float64)
    indices = torch.arange(24)
    task = ClientTask(0, indices, torch.bincount(data.y_train[indices], minlength=5).double())
    start, method = network.start(data.device, torch.float64), fedvls.get_method("scaffold")
    sent = {f"control/{name}": torch.full_like(value, 0.1) for name, value in start.params.items()}
    engines = [kind(network, data, get_augmentation("none")) for kind in (SequentialEngine, StackedEngine)]
    for lr, broadcast in ((0.1, {}), (0.01, {}), (0.01, sent), (0.01, {}), (0.01, sent)):
        job = RoundJob(start, method, Recipe(epochs=3, batch_size=4, lr=lr), 0, 1, broadcast)
        theirs, mine = (engine.train(job, [task])[0].state.tensors() for engine in engines)
        assert_close(mine, theirs, 1e-9)
    assert len(captured) == 5


@pytest.mark.parametrize("sends", [False, True])
def test_a_step_is_captured_anew_when_clients_keep_something_again(stripes, captured, sends):
    """What they keep comes, goes with another rate or with what the server sends, and comes again."""
    network, data = Network(small_mlp(), 5), ResidentData(stripes, torch.device("cpu"), torch.float64)
    indices = torch.arange(24)
    counts = torch.bincount(data.y_train[indices], minlength=5).double()
    start, method = network.start(data.device, torch.float64), fedvls.get_method("scaffold")
    own = {f"control/{name}": torch.full_like(value, 0.1) for name, value in start.params.items()}
    engines = [kind(network, data, get_augmentation("none")) for kind in (SequentialEngine, StackedEngine)]
    for lr, kept, sent in ((0.01 if sends else 0.1, own, own if sends else {}), (0.01, {}, {}), (0.01, own, {})):
        job = RoundJob(start, method, Recipe(epochs=3, batch_size=4, lr=lr), 0, 1, sent)
        task = ClientTask(0, indices, counts, kept)
        theirs, mine = (engine.train(job, [task])[0].state.tensors() for engine in engines)
        assert_close(mine, theirs, 1e-9)
    assert len(captured) == 3


def test_a_graph_does_again_what_it_saw():
    x, total, step = torch.ones(3), torch.zeros(3), torch.zeros(1, dtype=torch.int64)
    table = torch.arange(4.0)

    def run():
        total.add_(x * table.index_select(0, step))
        step.add_(1)

    graph = Graph(run)
    assert torch.equal(total, torch.zeros(3))  # as on a GPU, nothing is computed while capturing
    for _ in range(4):
        graph.replay()
    assert total.tolist() == [6.0] * 3
    assert graph.operations == 4


def test_a_graph_reads_where_it_read():
    held = {"x": torch.ones(2)}
    out = torch.zeros(2)
    first = held["x"]
    graph = Graph(lambda: out.copy_(held["x"]))
    held["x"] = torch.full((2,), 5.0)
    graph.replay()
    assert out.tolist() == [1.0, 1.0]
    del first
    with pytest.raises(AssertionError, match="reads memory that is free"):
        graph.replay()


@pytest.mark.parametrize("look", [lambda x: int(x.sum()), lambda x: bool((x > 0).any()), torch.nonzero])
def test_a_graph_cannot_tell_numbers(look):
    with pytest.raises(RuntimeError, match="not permitted when stream is capturing"):
        Graph(lambda: look(torch.ones(2) + 1))


def test_a_graph_cannot_draw():
    with pytest.raises(RuntimeError, match="not permitted when stream is capturing"):
        Graph(lambda: torch.ones(2).normal_())
