"""The parallel engine: the sequential engine's weights, and processes that never outlive their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
import torch
from support import assert_close, batch_norm_net, children, small_mlp, start_command
from torch import nn

import fedvls
from fedvls import methods  # noqa: F401  (registers them)
from fedvls.engines.parallel import is_supported
from fedvls.engines.workers import packed
from fedvls.method import METHODS
from fedvls.models.chain import linear_chain
from fedvls.models.mlp import Mlp

NAMES = [entry.name for entry in METHODS if entry.build.__module__.startswith("fedvls.")]
TOLERANCE = {"float64": 1e-9, "float32": 1e-4}


def weights(data, method, engine, dtype, **more):
    model = small_mlp() if more.pop("mlp", True) else batch_norm_net()
    values = {"classifier_rounds": 2} if method == "fedconcat" else {}
    partition = fedvls.dirichlet(beta=0.5, min_size=5)
    fed = fedvls.Federation(data, partition=partition, clients=4, model=model, engine=engine, dtype=dtype, device="cpu")
    return fed.run(fedvls.get_method(method, **values), 2, 2, batch_size=10, out=None, **more).weights.params


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("name", NAMES)
def test_two_rounds_end_with_the_sequential_engines_weights(stripes, name, dtype):
    theirs = weights(stripes, name, "sequential", dtype)
    assert_close(weights(stripes, name, "parallel", dtype), theirs, TOLERANCE[dtype])


@pytest.mark.parametrize(
    "more",
    [
        {"persistent_momentum": True},
        {"persistent_momentum": True, "momentum": 0.0},
        {"participation": 0.5},
        {"momentum": 0.0},
        {"mlp": False},
    ],
    ids=str,
)
def test_every_recipe_agrees_too(stripes, more):
    theirs = weights(stripes, "fedvls", "sequential", "float64", **more)
    assert_close(weights(stripes, "fedvls", "parallel", "float64", **more), theirs, 1e-9)


def test_the_number_of_workers_does_not_change_a_bit(stripes, monkeypatch):
    from fedvls.engines import parallel

    results = []
    for count in (1, 2, 3):
        monkeypatch.setattr(parallel, "cores", lambda count=count: count)
        results.append(weights(stripes, "fedvls", "parallel", "float32"))
    for other in results[1:]:
        assert all(torch.equal(t, other[k]) for k, t in results[0].items())


def test_a_run_resumes_across_engines(stripes, tmp_path):
    class Stop(fedvls.Callback):
        def on_round(self, record, timing):
            if record["round"] == 2:
                raise KeyboardInterrupt

    def federation(engine):
        return fedvls.Federation(stripes, clients=3, engine=engine, dtype="float64", device="cpu")

    whole = federation("sequential").run("scaffold", 4, 1, out=None).weights.params
    with pytest.raises(KeyboardInterrupt):
        federation("parallel").run("scaffold", 4, 1, out=tmp_path / "run", callbacks=[Stop()])
    resumed = federation("sequential").run("scaffold", 4, 1, out=tmp_path / "run").weights.params
    assert_close(resumed, whole, 1e-9)


def test_no_process_is_left_after_a_run_or_an_error(stripes):
    before = children(os.getpid())
    weights(stripes, "fedavg", "parallel", "float32")
    assert children(os.getpid()) == before

    def broken(inputs):
        raise ValueError("this loss is broken")

    fed = fedvls.Federation(stripes, clients=3, engine="parallel", device="cpu")
    with pytest.raises(RuntimeError, match="this loss is broken"):
        fed.run(fedvls.Method(fedvls.Term("broken", broken)), 1, 1, out=None)
    assert children(os.getpid()) == before


def test_a_worker_that_dies_is_named_and_the_run_can_be_resumed(stripes, tmp_path):
    before = children(os.getpid())

    class Kill(fedvls.Callback):
        def on_round(self, record, timing):
            if record["round"] == 2:
                os.kill(max(children(os.getpid()) - before), signal.SIGKILL)

    def federation():
        return fedvls.Federation(stripes, clients=3, engine="parallel", device="cpu")

    with pytest.raises(fedvls.RunError, match="a worker process ended unexpectedly"):
        federation().run("fedavg", 4, 1, out=tmp_path / "run", callbacks=[Kill()])
    assert children(os.getpid()) == before
    resumed = federation().run("fedavg", 4, 1, out=tmp_path / "run")
    assert resumed.records == federation().run("fedavg", 4, 1, out=None).records


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_workers_end_with_their_parent(tmp_path, how):
    arguments = ["run", "--dataset", "digits", "--rounds", 500, "--engine", "parallel", "--device", "cpu", "--out", "r"]
    process = start_command(*arguments, cwd=tmp_path, stderr=subprocess.DEVNULL)
    log, deadline = tmp_path / "r" / "metrics.jsonl", time.monotonic() + 60
    while not (log.exists() and log.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.05)
    workers = children(process.pid)
    assert workers or os.cpu_count() == 1
    process.send_signal(how)
    process.wait(timeout=30)
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{w}").exists() for w in workers) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not [w for w in workers if Path(f"/proc/{w}").exists()]


def test_only_plain_chains_are_trained_without_autograd():
    assert [layer.relu for layer in linear_chain(Mlp(4, (3, 3), 2))] == [True, True, False]
    assert len(linear_chain(nn.Sequential(nn.Flatten(), nn.Linear(4, 3, bias=False), nn.ReLU(), nn.Linear(3, 2)))) == 2
    for other in (
        batch_norm_net(),
        nn.Linear(4, 2),
        nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)),
        nn.Sequential(nn.Linear(4, 2), nn.ReLU()),
        nn.Sequential(nn.Linear(4, 3), nn.Dropout(), nn.Linear(3, 2)),
    ):
        assert linear_chain(other) is None


def a_relu_twice(relu, *layers):
    return nn.Sequential(nn.Flatten(), layers[0], relu, layers[1], relu, layers[2])


def tied(one, other):
    other.weight = one.weight
    return nn.Sequential(nn.Flatten(), one, nn.ReLU(), other, nn.Linear(16, 5))


def hooked(layer):
    layer.register_forward_hook(lambda module, given, out: out * 2)
    return nn.Sequential(nn.Flatten(), layer, nn.ReLU(), nn.Linear(12, 5))


def a_layer_twice(layer):
    return nn.Sequential(nn.Flatten(), layer, nn.ReLU(), layer, nn.ReLU(), nn.Linear(16, 5))


NOT_AS_IT_SEEMS = {
    "a ReLU that comes twice": lambda: a_relu_twice(nn.ReLU(), *map(nn.Linear, (16, 12, 12), (12, 12, 5))),
    "a layer that comes twice": lambda: a_layer_twice(nn.Linear(16, 16)),
    "layers that share weights": lambda: tied(nn.Linear(16, 16), nn.Linear(16, 16)),
    "a hook": lambda: hooked(nn.Linear(16, 12)),
    "a classifier of two layers": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(16, 12), nn.ReLU(), nn.Sequential(nn.Linear(12, 7), nn.ReLU(), nn.Linear(7, 5))
    ),
}


@pytest.mark.parametrize("method", ["fedavg", "fedvls", "fpl"])
@pytest.mark.parametrize("kind", list(NOT_AS_IT_SEEMS))
def test_a_model_that_looks_like_a_chain_is_trained_and_judged_as_what_it_is(stripes, kind, method):
    torch.manual_seed(0)
    model, classifier = NOT_AS_IT_SEEMS[kind](), "3" if "classifier" in kind else None
    found = []
    for engine in ("sequential", "parallel", "stacked"):
        fed = fedvls.Federation(
            stripes, clients=4, model=model, classifier=classifier, engine=engine, device="cpu", dtype="float64"
        )
        result = fed.run(method, 2, 2, batch_size=7, lr=0.05, out=None)
        itself = result.network.module(result.weights).eval()
        with torch.no_grad():
            said = itself(torch.from_numpy(stripes.x_test).double()).argmax(-1)
        assert result.last == pytest.approx(float((said == torch.from_numpy(stripes.y_test)).double().mean()))
        found.append(result.weights.tensors())
    for other in found[1:]:
        assert_close(other, found[0], 1e-9)


@pytest.mark.parametrize(("model", "expected"), [("mlp", "stacked"), ("cnn", "parallel")])
def test_the_engine_is_chosen_where_it_can_work(stripes, model, expected):
    """Stacks where the model has a form written for them."""
    data = stripes if model == "mlp" else fedvls.load_dataset("digits")
    fed = fedvls.Federation(data, clients=3, device="cpu", model=model)
    header = fed.run("fedavg", 1, 1, out=None).header
    assert header["engine"]["name"] == (expected if is_supported(fed._resident) else "sequential")


def test_messages_hold_no_descriptors_and_arrive_as_they_were():
    """Thousands of tensors in one message; each would cost an open file in PyTorch's own way of passing them."""
    from multiprocessing import Pipe

    tensors = {str(k): torch.full((3,), float(k)) for k in range(5000)}
    tensors |= {"flag": torch.tensor([True, False]), "count": torch.tensor(7), "turned": torch.ones(2, 3).t()}
    here, there = Pipe()
    before = len(list(Path("/proc/self/fd").iterdir()))
    sender = threading.Thread(target=lambda: here.send_bytes(packed(tensors)))
    sender.start()
    arrived = there.recv()
    sender.join()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert all(torch.equal(t, arrived[k]) and t.dtype == arrived[k].dtype for k, t in tensors.items())
    arrived["0"] += 1  # and they can be written to
