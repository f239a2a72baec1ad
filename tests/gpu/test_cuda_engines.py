"""Engines on a GPU: the sequential engine's weights, the same bits twice, graphs that are really replayed."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from support import assert_close, batch_norm_net, dropout_net, run_command, small_data, small_mlp
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import fedvls
from fedvls import (
    kernels,
    methods,  # noqa: F401  (registers them)
)
from fedvls.engines import stacked
from fedvls.engines.capture import Replay
from fedvls.engines.graphed import MOST_SLOTS, GraphedEngine
from fedvls.engines.stack import Stack
from fedvls.kernels.fused_objective import FusedObjective
from fedvls.method import METHODS
from fedvls.models.dropout import keyed, with_keys

NAMES = [entry.name for entry in METHODS if entry.build.__module__.startswith("fedvls.")]
TOLERANCE = {"float64": 1e-9, "float32": 1e-4}
MODELS = {"mlp": small_mlp, "batch norm": batch_norm_net, "dropout": dropout_net}
REPLAYED = [("stacked", "mlp"), ("stacked", "dropout"), ("graphed", "batch norm"), ("graphed", "dropout")]


def weights(data, method, engine, dtype="float64", kind="mlp", **more):
    values = {"classifier_rounds": 2} if method == "fedconcat" else {}
    partition = fedvls.dirichlet(beta=0.5, min_size=5)
    fed = fedvls.Federation(
        data, partition=partition, clients=4, model=MODELS[kind](), engine=engine, dtype=dtype, device="cuda"
    )
    built = fedvls.get_method(method, **values)
    settings = {"batch_size": 6, "local_every": 100, "out": None, **more}
    return fed.run(built, 2, 3, **settings).weights.tensors()


@pytest.mark.parametrize(
    ("engine", "kind"),
    [
        ("stacked", "mlp"),
        ("stacked", "batch norm"),
        ("stacked", "dropout"),
        ("graphed", "batch norm"),
        ("graphed", "dropout"),
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_two_rounds_end_with_the_sequential_engines_weights(stripes, name, engine, kind):
    theirs = weights(stripes, name, "sequential", "float64", kind)
    mine = weights(stripes, name, engine, "float64", kind)
    assert_close(mine, theirs, TOLERANCE["float64"])


@pytest.mark.parametrize("name", ["fedvls", "fedntd", "fedvls+fedsam"])
@pytest.mark.parametrize("engine", ["stacked", "graphed"])
def test_a_teacher_in_train_mode_sees_minibatches(stripes, name, engine):
    theirs, mine = (
        weights(stripes, name, each, "float64", "batch norm", teacher_mode="train") for each in ("sequential", engine)
    )
    assert_close(mine, theirs, 1e-9)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("engine", "kind"), REPLAYED)
def test_float32_agrees_and_repeats_to_the_bit(name, engine, kind):
    """Four times the data in minibatches of 24. In minibatches of two to six BatchNorm divides by variances near 0,
    and the sequential engine alone is up to 1e-2 from its own float64: no bound would tell rounding from a mistake."""
    data, size = small_data(per_class=96), {"batch_size": 24}
    exact, theirs = (weights(data, name, "sequential", dtype, kind, **size) for dtype in ("float64", "float32"))
    assert_close({key: value.to(exact[key].dtype) for key, value in theirs.items()}, exact, TOLERANCE["float32"] / 4)
    mine, again = (weights(data, name, engine, "float32", kind, **size) for _ in range(2))
    assert_close(mine, theirs, TOLERANCE["float32"])
    assert all(torch.equal(t, again[k]) for k, t in mine.items())


@pytest.mark.parametrize(("engine", "kind"), REPLAYED)
def test_steps_are_replayed_not_called(stripes, monkeypatch, engine, kind):
    captured = []
    original = Replay._captured
    monkeypatch.setattr(Replay, "_captured", lambda self, step: captured.append(1) or original(self, step))
    weights(stripes, "fedvls", engine, "float32", kind, batch_size=3)
    assert captured


@pytest.mark.parametrize(("engine", "kind"), [("stacked", "mlp"), ("graphed", "batch norm")])
@pytest.mark.parametrize("name", ["fedvls", "fedvls-soft", "fedlc", "fedlmd", "moon", "scaffold", "feddyn"])
def test_replayed_steps_know_the_clients_of_their_round(stripes, name, engine, kind):
    """Half of the clients a round: label statistics, and what clients keep, change under captured steps."""
    some = {"participation": 0.5, "batch_size": 6}  # of three samples BatchNorm makes 1e-9 of rounding
    theirs = weights(stripes, name, "sequential", "float64", kind, **some)
    assert_close(weights(stripes, name, engine, "float64", kind, **some), theirs, 1e-9)


@pytest.mark.parametrize("engine", ["stacked", "graphed"])
def test_a_thousand_clients_take_turns(monkeypatch, engine):
    """In no more slots than there may be, and in a stack of what is said to fit: the sequential engine's weights."""
    slots, ready = [], GraphedEngine._ready
    monkeypatch.setattr(GraphedEngine, "_ready", lambda *given: (found := ready(*given), slots.append(len(found)))[0])
    monkeypatch.setattr(stacked, "clients_that_fit", lambda *_: 300)
    data, found = small_data(per_class=600), []
    for each in ("sequential", engine):
        fed = fedvls.Federation(
            data,
            partition=fedvls.iid(),
            clients=1_000,
            model=batch_norm_net(),
            engine=each,
            dtype="float64",
            device="cuda",
        )
        found.append(fed.run("fedvls", 1, 2, batch_size=3, out=None, local_every=100).weights.tensors())
    assert_close(found[1], found[0], 1e-9)
    assert slots == ([1, MOST_SLOTS] if engine == "graphed" else [])  # of the trial, and of the round


class Stop(fedvls.Callback):
    def on_round(self, record, timing):
        raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["fedvls", "moon"])
def test_a_run_resumes_across_engines(stripes, tmp_path, name):
    """A round each by two fast engines, the rest by the sequential one."""

    def run(engine, **more):
        fed = fedvls.Federation(
            stripes, clients=4, model=batch_norm_net(), engine=engine, dtype="float64", device="cuda"
        )
        return fed.run(name, 4, 1, batch_size=6, **more).weights.tensors()

    for engine in ("stacked", "graphed"):
        with pytest.raises(KeyboardInterrupt):
            run(engine, out=tmp_path / "run", callbacks=[Stop()])
    assert_close(run("sequential", out=tmp_path / "run"), run("sequential", out=None), 1e-9)


class Operations(TorchDispatchMode):
    """Counts what PyTorch computes; views and empty tensors are free."""

    FREE = frozenset({"view", "_unsafe_view", "slice", "select", "unsqueeze", "expand", "transpose", "detach", "alias"})

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function._schema.name.removeprefix("aten::")
        self.count += name not in self.FREE and "empty" not in name
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ["fedavg", "fedvls"])
def test_an_objective_is_one_launch(stripes, monkeypatch, name):
    """A step of FedVLS was 99 of PyTorch's operations, FedAvg's 40; 11 and eight launches of kernels remain."""
    launches, counts = [], []
    launch, step = FusedObjective.__call__, Stack._step
    monkeypatch.setattr(FusedObjective, "__call__", lambda *given: launches.append(1) or launch(*given))

    def counted(stack, block):
        launches.clear()
        with Operations() as operations:
            step(stack, block)
        counts.append(operations.count)
        assert len(launches) == 1

    monkeypatch.setattr(Stack, "_step", counted)
    weights(stripes, name, "stacked", "float32")
    assert 5 < min(counts) < 20


@pytest.mark.parametrize("dtype", ["float32", "bf16"])
def test_in_16_bits_any_modules_batch_norm_is_the_packages(stripes, monkeypatch, dtype):
    """On maps and on vectors; the same bits twice."""
    taken, original = [], kernels.batch_norm

    def noted(x, *rest):
        y = original(x, *rest)
        taken.append((x.dim(), y is not None))
        return y

    monkeypatch.setattr(kernels, "batch_norm", noted)
    first, second = (weights(stripes, "fedvls", "graphed", dtype, "batch norm") for _ in range(2))
    assert set(taken) == ({(4, True), (2, True)} if dtype == "bf16" else set())
    assert all(torch.equal(t, second[k]) for k, t in first.items())


@pytest.mark.parametrize("dtype", ["float32", "bf16"])
def test_a_gpu_draws_the_masks_of_a_cpu(dtype):
    """Whole numbers are exact everywhere: so are the places where dropout has put a 0."""
    key, x = torch.tensor([123456789, -987654321], dtype=torch.int32), torch.ones(7, 12, 5, 5)
    layers = with_keys(nn.Sequential(nn.Dropout(0.3), nn.Dropout2d(0.6)))
    masks = []
    for device in ("cpu", "cuda"):
        with keyed(key.to(device)):
            masks.append(layers(x.to(device, torch.bfloat16 if dtype == "bf16" else torch.float32)).cpu())
    assert torch.equal(*masks)


def test_what_cannot_be_captured_is_trained_sequentially_and_said(stripes):
    class Branching(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(16, 5)

        def forward(self, x):
            y = self.head(x.flatten(1))
            return y * 2 if float(y.detach().sum()) > 0 else y

    fed = fedvls.Federation(stripes, clients=3, model=Branching(), device="cuda")
    header = fed.run("fedavg", 1, 1, out=None).header
    assert header["engine"]["name"] == "sequential"
    assert "capturing a step failed" in header["engine"]["why"]
    with pytest.raises(fedvls.UsageError, match="engine 'graphed' cannot train this: capturing a step failed"):
        fedvls.Federation(stripes, clients=3, model=Branching(), device="cuda", engine="graphed").run(
            "fedavg", 1, 1, out=None
        )


def test_auto_stacks_what_has_a_form_for_it(stripes):
    names = {}
    for kind, model in MODELS.items():
        fed = fedvls.Federation(stripes, clients=3, model=model(), device="cuda")
        names[kind] = fed.run("fedavg", 1, 1, out=None).header["engine"]["name"]
    assert names == {"mlp": "stacked", "batch norm": "graphed", "dropout": "graphed"}


@cache
def accuracy_on_digits(model, engine, dtype):
    """FedVLS, mean of three seeds and of the last five rounds."""
    data = fedvls.load_dataset("digits")
    if model == "mobilenetv2":  # twice as large, so that more than one number per channel is left for BatchNorm
        data = replace(data, **{name: getattr(data, name).repeat(2, 2).repeat(2, 3) for name in ("x_train", "x_test")})
    rounds, lr = (12, 0.01) if model == "mobilenetv2" else (10, 0.05)
    found = []
    for seed in range(3):
        fed = fedvls.Federation(
            data,
            partition=fedvls.dirichlet(beta=0.5),
            model=model,
            seed=seed,
            engine=engine,
            dtype=dtype,
            device="cuda",
        )
        found.append(fed.run("fedvls", rounds, 2, lr=lr, batch_size=32, out=None, local_every=100).mean_last_five)
    return sum(found) / 3


@pytest.mark.parametrize("dtype", ["tf32", "bf16"])
@pytest.mark.parametrize(
    ("model", "engine"),
    [
        ("cnn", "sequential"),
        ("cnn", "stacked"),
        ("cnn", "graphed"),
        ("mobilenetv2", "stacked"),
        ("mobilenetv2", "graphed"),
    ],
)
def test_short_types_learn_as_well(model, engine, dtype):
    """On real digits within two points of float32; MobileNetV2's seeds alone are three points apart."""
    mine, theirs = (accuracy_on_digits(model, engine, each) for each in (dtype, "float32"))
    assert theirs > 0.8
    assert abs(mine - theirs) < 0.02, (mine, theirs)


@pytest.mark.parametrize("engine", ["stacked", "graphed"])
def test_nothing_is_warned_of(tmp_path, engine):
    """In a new process, where whatever warns on first use still does."""
    told = ("--dataset", "digits", "--model", "cnn", "--rounds", 1, "--device", "cuda", "--engine", engine)
    done = run_command("run", "--method", "fedvls", *told, "--out", tmp_path / "run", cwd=tmp_path, check=True)
    assert "Warning" not in done.stderr, done.stderr


def test_memory_is_flat_over_fifty_rounds(stripes):
    taken = []

    class Watch(fedvls.Callback):
        def on_round(self, record, timing):
            taken.append(torch.cuda.memory_allocated())

    for engine in ("stacked", "graphed"):
        taken.clear()
        fed = fedvls.Federation(stripes, clients=4, model=batch_norm_net(), engine=engine, device="cuda")
        fed.run("scaffold", 50, 1, batch_size=8, participation=0.5, local_every=100, out=None, callbacks=[Watch()])
        assert max(taken[30:]) <= max(taken[15:30]) * 1.02, (engine, taken)
