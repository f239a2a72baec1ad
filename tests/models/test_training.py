"""Models in training: gradients, BatchNorm's two modes, one round of FedAvg, and padding that stays 0."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support import hand_made
from torch.nn import functional as F

import fedvls
from fedvls.augment import get_augmentation
from fedvls.data.resident import ResidentData
from fedvls.engines import ClientTask, RoundJob
from fedvls.engines.sequential import SequentialEngine
from fedvls.recipe import Recipe

CPU = torch.device("cpu")
SMALL = [
    ("mobilenetv2", (3, 16, 16)),
    ("resnet18", (3, 32, 32)),
    ({"name": "resnet18", "stem": "cifar"}, (3, 16, 16)),
    ("resnet32", (3, 16, 16)),
    ("resnet8", (3, 16, 16)),
    ("resnet10", (3, 16, 16)),
    ("cnn", (1, 8, 8)),
    ("mlp", (1, 8, 8)),
    ("fasttext", (20,)),
    ("textcnn", (20,)),
]
WITH_BATCH_NORM = SMALL[:6]


@pytest.mark.parametrize(("model", "shape"), SMALL)
def test_a_gradient_reaches_every_parameter(model, shape, built, samples):
    network, start = built(model, shape, vocabulary=50)
    state = start.copy()
    for parameter in state.params.values():
        parameter.requires_grad_()
    loss = F.cross_entropy(network.logits(state, samples(shape, 6), train=True), torch.arange(6))
    gradients = torch.autograd.grad(loss, list(state.params.values()))
    for name, gradient in zip(state.params, gradients, strict=True):
        assert gradient.isfinite().all(), name
        assert gradient.any(), name


@pytest.mark.parametrize(("model", "shape"), WITH_BATCH_NORM)
@torch.no_grad()
def test_training_uses_the_batchs_statistics_and_moves_the_running_ones(model, shape, built, samples):
    network, start = built(model, shape)
    state = start.copy()
    x = samples(shape, 4)
    together = network.logits(state, x, train=True)
    for name, buffer in state.buffers.items():
        assert not torch.equal(buffer, start.buffers[name]), name
    alone = network.logits(start.copy(), x[:2], train=True)
    assert not torch.allclose(together[:2], alone, atol=1e-3)


@pytest.mark.parametrize(("model", "shape"), WITH_BATCH_NORM)
@torch.no_grad()
def test_evaluation_sees_each_sample_alone_and_moves_nothing(model, shape, built, samples):
    network, start = built(model, shape)
    state = start.copy()
    x = samples(shape, 4)
    together, alone = network.logits(state, x, train=False), network.logits(state, x[:1], train=False)
    torch.testing.assert_close(together[:1], alone, rtol=1e-4, atol=1e-5)
    assert all(torch.equal(buffer, start.buffers[name]) for name, buffer in state.buffers.items())


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        ("mobilenetv2", (3, 32, 32)),
        ("resnet18", (3, 32, 32)),
        ("resnet32", (3, 32, 32)),
        ("resnet8", (3, 32, 32)),
        ("resnet10", (3, 32, 32)),
        ("cnn", (28, 28)),
    ],
)
def test_one_round_of_fedavg_moves_a_registered_model(model, shape):
    random = np.random.RandomState(0)
    x, y = random.randint(0, 256, (17, *shape)).astype(np.uint8), np.arange(17) % 4
    data = fedvls.FederatedData.from_arrays(x, y, x[:5], y[:5])
    # Nine samples in batches of eight: the ninth joins the eighth's batch, or BatchNorm on 1x1 maps would refuse it.
    parts = hand_made(list(range(9)), list(range(9, 17)))
    federation = fedvls.Federation(data, partition=parts, clients=2, model=model, device="cpu")
    result = federation.run("fedavg", rounds=1, epochs=1, batch_size=8, out=None)
    before = federation.network.start(CPU, torch.float32)
    assert result.records[0]["left_out"] == []
    for name, tensor in result.weights.params.items():
        assert tensor.isfinite().all(), name
        assert not torch.equal(tensor, before.params[name]), name


@pytest.mark.parametrize("model", ["fasttext", "textcnn"])
@pytest.mark.parametrize("method", ["fedavg", "fedvls+fedsam"])
def test_the_vector_of_padding_is_0_after_training(model, method, built, samples):
    network, start = built(model, (20,), 4, vocabulary=50)
    x, y = samples((20,), 12), torch.arange(12) % 4
    data = fedvls.FederatedData.from_arrays(x, y, x, y, vocabulary=50)
    engine = SequentialEngine(network, ResidentData(data, CPU, torch.float32), get_augmentation("none"))
    task = ClientTask(0, torch.arange(12), torch.bincount(y, minlength=4).float())
    recipe = Recipe(epochs=2, batch_size=4, lr=0.5, weight_decay=1e-2)
    [update] = engine.train(RoundJob(start, fedvls.get_method(method), recipe, seed=0, round=1), [task])
    before, after = start.params["embedding.weight"], update.state.params["embedding.weight"]
    assert not before[0].any()
    assert not after[0].any()
    used = x.unique()[1:]
    assert (after[used] != before[used]).any(-1).all()
