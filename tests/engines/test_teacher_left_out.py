"""A teacher is not asked of samples for which nothing depends on its answer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support import assert_close, batch_norm_net, small_mlp

import fedvls
from fedvls.augment import get_augmentation
from fedvls.data.resident import ResidentData
from fedvls.engines import ClientTask, RoundJob
from fedvls.engines.samples import Samples
from fedvls.losses import ClientStatistics, Objective, distillation, term
from fedvls.models import Network
from fedvls.recipe import Recipe

CLASSES = ((0, 1, 2, 3, 4), (0, 1, 2, 3), (0, 1))  # no vacant class, one, three
SIZES = (10, 8, 4)


@pytest.fixture(scope="module")
def sites():
    random = np.random.RandomState(0)
    y = np.concatenate([np.repeat(classes, 2) for classes in CLASSES])
    x = random.randint(0, 256, (len(y), 1, 4, 4), dtype=np.uint8)
    clients = np.split(np.arange(len(y)), np.cumsum(SIZES)[:-1])
    return fedvls.FederatedData.from_arrays(x, y, x, y, name="sites", mean=(0.5,), std=(0.5,), clients=clients)


def weights(data, method, engine, model=small_mlp):
    fed = fedvls.Federation(data, partition=fedvls.given(), model=model(), engine=engine, dtype="float64", device="cpu")
    return fed.run(method, 2, 1, batch_size=3, out=None, local_every=100).weights.tensors()


@pytest.mark.parametrize("method", ["fedvls", "fedvls-soft", "fedntd", "fedekd", "fedlmd"])
@pytest.mark.parametrize(
    ("engine", "model"), [("stacked", small_mlp), ("stacked", batch_norm_net), ("parallel", small_mlp)]
)
def test_runs_end_with_the_sequential_engines_weights(sites, method, engine, model):
    """The sequential engine asks the teacher every time."""
    assert_close(weights(sites, method, engine, model), weights(sites, method, "sequential", model), 1e-9)


@pytest.fixture
def work(sites):
    """A method's samples, job and tasks."""

    def made(method, **values):
        network = Network(small_mlp(), 5)
        resident = ResidentData(sites, torch.device("cpu"), torch.float64)
        job = RoundJob(
            network.start(resident.device, torch.float64), fedvls.get_method(method, **values), Recipe(), 0, 1
        )
        tasks = []
        for k, own in enumerate(sites.clients):
            counts = torch.bincount(resident.y_train[own], minlength=5).double()
            hears = bool(job.method.objective.hears_teacher(ClientStatistics(counts)))
            tasks.append(ClientTask(k, torch.from_numpy(own), counts, hears_teacher=hears))
        return network, resident, job, tasks

    return made


@pytest.mark.parametrize(
    ("method", "values", "expected"),
    [
        ("fedvls", {}, [4]),  # over one vacant class both models say 1
        ("fedvls-soft", {}, [4]),
        ("fedvls-soft", {"trust": "both"}, [10, 8, 4]),  # every sample's calibration depends on the teacher
        ("fedntd", {}, [10, 8, 4]),
        ("moon", {}, [10, 8, 4]),
    ],
)
def test_only_clients_that_hear_it_ask_the_teacher(work, monkeypatch, method, values, expected):
    network, resident, job, tasks = work(method, **values)
    asked, original = [], Samples._seen_by
    monkeypatch.setattr(
        Samples, "_seen_by", lambda self, state, x, sizes: asked.append(list(sizes)) or original(self, state, x, sizes)
    )
    samples = Samples(network, resident, get_augmentation("none"))
    logits = samples.prepare(job, tasks, 0)["teacher_logits"]
    assert asked == [expected]
    assert [bool(own.any()) for own in logits.split(SIZES)] == [size in expected for size in SIZES]
    full, _ = original(samples, job.start, samples._inputs(job, tasks, torch.arange(22), 0), SIZES)
    assert torch.equal(logits[18:], full[18:])


def test_nobody_is_asked_where_nobody_hears(work, monkeypatch):
    network, resident, job, tasks = work("fedvls")
    monkeypatch.setattr(Samples, "_seen_by", lambda *_: pytest.fail("the teacher was asked"))
    found = Samples(network, resident, get_augmentation("none")).prepare(job, tasks[:2], 0)
    assert found["teacher_logits"].shape == (18, 5)
    assert not found["teacher_logits"].any()


def test_what_is_heard_follows_from_the_classes_and_the_label():
    client = ClientStatistics(torch.tensor([[5.0, 5, 5, 5], [5, 5, 5, 0], [5, 5, 0, 0], [0, 0, 0, 5]]))
    heard = {
        "vacant": (distillation.vacant_distillation(), [False, False, True, True]),
        "existing": (distillation.existing_distillation(), [True, True, True, False]),
        "all": (distillation.full_distillation(), [True] * 4),
        "not true": (distillation.not_true_distillation(), [True] * 4),
        # With one class to speak of, the student still speaks of all others.
        "label masked": (distillation.label_masked_distillation(), [True] * 4),
        "one that tells": (
            term("mine", "teacher_logits", hears=lambda client: client.vacant.sum(-1) > 2)(
                lambda inputs: inputs.logits
            ),
            [False, False, False, True],
        ),
        "any other": (term("mine", "teacher_logits")(lambda inputs: inputs.logits.sum()), [True] * 4),
        "no teacher": (term("mine", "params")(lambda inputs: inputs.logits.sum()), [False] * 4),
    }
    for name, (made, expected) in heard.items():
        assert Objective((made,)).hears_teacher(client).tolist() == expected, name


def test_two_terms_hear_what_either_hears():
    client = ClientStatistics(torch.tensor([5.0, 5, 5, 5]))
    both = distillation.vacant_distillation() + distillation.full_distillation()
    assert bool(both.hears_teacher(client))
    assert not bool(Objective((distillation.vacant_distillation(),)).hears_teacher(client))
