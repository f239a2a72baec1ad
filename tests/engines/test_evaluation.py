"""Evaluation in worker processes: the plain evaluation's bits, whoever computes them."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
import torch
from support import batch_norm_net, children

import fedvls
from fedvls.data.resident import ResidentData
from fedvls.engines import ClientTask, RoundJob
from fedvls.engines.base import Evaluator
from fedvls.engines.parallel import ParallelEngine, is_supported
from fedvls.evaluation import evaluate
from fedvls.models import Network
from fedvls.recipe import Recipe

CPU = torch.device("cpu")
CLASSES = 5


def images(test_samples: int) -> fedvls.FederatedData:
    """Random 4x4 images of two domains; 1000 test samples are one batch."""
    random = np.random.RandomState(0)
    x, y = random.normal(size=(test_samples, 1, 4, 4)).astype(np.float32), random.randint(0, CLASSES, test_samples)
    domain = np.arange(test_samples) % 2
    return fedvls.FederatedData.from_arrays(
        x[:40], y[:40], x, y, classes=CLASSES, domains=("even", "odd"), domain_train=domain[:40], domain_test=domain
    )


@pytest.fixture
def evaluator(request):
    """An engine with three workers, its network and its data."""
    data = images(request.param)
    network, resident = Network(batch_norm_net(), CLASSES), ResidentData(data, CPU, torch.float32)
    assert is_supported(resident)
    engine = ParallelEngine(network, resident, fedvls.augment.choose_augmentation("none", data), workers=3)
    try:
        yield engine, network, resident
    finally:
        engine.close()


def train_once(engine, network, data):
    """A round of three clients, after which there are workers."""
    counts = torch.bincount(data.y_train[:10], minlength=CLASSES).float()
    job = RoundJob(network.start(CPU, torch.float32), fedvls.get_method("fedavg"), Recipe(epochs=1), 0, 1)
    return [u.state for u in engine.train(job, [ClientTask(k, torch.arange(10), counts) for k in range(3)])]


def assert_same_bits(mine, theirs):
    assert np.array_equal(mine.confusion, theirs.confusion)
    assert mine.loss == theirs.loss
    assert mine.per_domain == theirs.per_domain


# 7500 samples are eight batches, the last one short; 900 are one, so two of three shares of it are empty.
@pytest.mark.parametrize("evaluator", [7500, 900], indirect=True)
@pytest.mark.parametrize("models", [1, 2, 3, 7])
def test_workers_evaluate_to_the_bits_of_the_plain_evaluation(evaluator, models):
    engine, network, data = evaluator
    trained = train_once(engine, network, data)
    states = [trained[k % 3].updated({"head.bias": torch.full((CLASSES,), k / 7)}) for k in range(models)]
    found = engine.evaluate(states, CLASSES)
    for mine, state in zip(found, states, strict=True):
        assert_same_bits(mine, evaluate(network, state, data, CLASSES))


@pytest.mark.parametrize("evaluator", [900], indirect=True)
def test_without_workers_evaluation_is_plain(evaluator):
    engine, network, data = evaluator
    before = children(os.getpid())
    state = network.start(CPU, torch.float32)
    (found,) = engine.evaluate([state], CLASSES)
    assert_same_bits(found, evaluate(network, state, data, CLASSES))
    assert children(os.getpid()) == before


@pytest.mark.parametrize("evaluator", [900], indirect=True)
def test_a_worker_that_dies_before_evaluation_is_named(evaluator):
    engine, network, data = evaluator
    before = children(os.getpid())
    states = train_once(engine, network, data)
    os.kill(max(children(os.getpid()) - before), signal.SIGKILL)
    with pytest.raises(fedvls.RunError, match="evaluation: a worker process ended unexpectedly"):
        engine.evaluate(states, CLASSES)
    assert children(os.getpid()) == before


@pytest.mark.parametrize("method", ["fedvls", "fedconcat", "ccvr"])
def test_records_do_not_depend_on_who_evaluates(stripes, monkeypatch, method):
    """FedConcat shows a model that no engine trains, CCVR changes the last one."""

    def records():
        fed = fedvls.Federation(stripes, partition=fedvls.iid(), clients=4, engine="parallel", device="cpu")
        return fed.run(method, 3, 1, local_every=2, confusion=[1], out=None).records

    by_workers = records()
    calls = []

    def plainly(engine, states, classes):
        calls.append(len(states))
        return [evaluate(engine.network, state, engine.data, classes) for state in states]

    monkeypatch.setattr(ParallelEngine, "evaluate", plainly)
    assert records() == by_workers
    assert max(calls) >= 2  # a model before the round and the clients' after it


def test_engines_that_do_not_evaluate_are_told_from_those_that_do(stripes):
    data, network = ResidentData(stripes, CPU, torch.float32), Network(batch_norm_net(), CLASSES)
    kinds = {n: make(network, data, fedvls.augment.choose_augmentation("none", stripes)) for n, make in engines()}
    assert isinstance(kinds["parallel"], Evaluator)
    assert not isinstance(kinds["sequential"], Evaluator)


def engines():
    from fedvls.engines import ENGINES

    return [(name, ENGINES[name]) for name in ("parallel", "sequential")]
