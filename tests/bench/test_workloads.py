"""The workloads are those that are published, at any size."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from fedvls.bench.data import generated, workload_data
from fedvls.bench.inputs import workload_network, workload_split, write_inputs, write_settings
from fedvls.bench.rivals.shared import build_model, read_inputs
from fedvls.bench.workloads import WORKLOADS, get_workload
from fedvls.errors import UsageError


def parameters(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def test_a_round_of_the_papers_mnist_is_300_000_samples_and_its_run_15_million():
    mnist = get_workload("mnist-mlp")
    assert mnist.samples_per_round == 60_000 * 5
    assert mnist.samples_per_round * mnist.rounds["cuda"] == 15_000_000


def test_the_public_workload_is_pfls():
    """1,000 users x 50 images, cohort 50, batch 10, one epoch, 1,500 rounds, learning rate 0.1 without momentum."""
    public = get_workload("cifar10-pfl")
    assert public.train == public.clients * 50 == 50_000
    assert (public.cohort, public.batch_size, public.epochs, public.rounds["cuda"]) == (50, 10, 1, 1500)
    assert (public.lr, public.momentum, public.samples_per_round) == (0.1, 0.0, 2500)


def test_the_two_convolution_network_has_the_published_number_of_parameters():
    """3x3 convolutions 3-32-64 without padding, pooling to 14x14, Linear 12544-128-10:
    3*9*32+32 + 32*9*64+64 + 12544*128+128 + 128*10+10 = 1,626,442."""
    module = build_model(dict(get_workload("cifar10-pfl").model))
    assert parameters(module) == 896 + 18_496 + 1_605_760 + 1_290 == 1_626_442
    assert module(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


@pytest.mark.parametrize("name", ["mnist-mlp", "cifar10-pfl"])
def test_rivals_build_the_model_that_our_engines_train(name):
    workload = get_workload(name)
    ours = workload_network(workload, 0).prototype.eval()
    theirs = build_model(dict(workload.model)).eval()
    with torch.no_grad():
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            other.copy_(mine)
    x = torch.linspace(-1, 1, 2 * math.prod(workload.image)).reshape(2, *workload.image)
    assert torch.allclose(ours(x), theirs(x), atol=1e-6)


def test_fewer_samples_of_many_alike_clients_are_fewer_clients_and_as_large_a_share_of_them():
    small = get_workload("cifar10-pfl").scaled(1999)
    assert (small.train, small.clients, small.cohort, small.test) == (39 * 50, 39, 2, 399)


@pytest.mark.parametrize(("name", "samples"), [("mnist-mlp", 60_001), ("mnist-mlp", 100), ("cifar10-pfl", 99)])
def test_a_size_that_does_not_exist_is_refused(name, samples):
    with pytest.raises(UsageError, match=f"--samples {samples}: {name} needs"):
        get_workload(name).scaled(samples)


def test_a_workload_for_a_gpu_says_so():
    with pytest.raises(UsageError, match="'cifar10-mobilenetv2' is meant for cuda, not cpu"):
        get_workload("cifar10-mobilenetv2").default_rounds("cpu")


@pytest.mark.parametrize("name", WORKLOADS)
def test_generated_data_have_the_real_shape_and_can_be_learned(name):
    """The nearest class mean, where every class is four patterns: far above the 10 % of guessing."""
    workload = get_workload(name).scaled(6000)
    data = generated(workload)
    assert data.x_train.shape == (workload.train, *workload.image)
    assert data.x_test.shape == (workload.test, *workload.image)
    assert data.x_train.dtype == np.uint8
    assert set(np.unique(data.y_train)) == set(range(10))
    x, x_test = (part.reshape(len(part), -1).astype(np.float32) for part in (data.x_train, data.x_test))
    means = np.stack([x[data.y_train == label].mean(0) for label in range(10)])
    distance = (means**2).sum(1) - 2 * x_test @ means.T
    assert (distance.argmin(1) == data.y_test).mean() > 0.5


def test_generated_data_depend_on_the_seed_alone():
    small = get_workload("mnist-mlp").scaled(200)
    assert np.array_equal(generated(small, 1).x_train, generated(small, 1).x_train)
    assert not np.array_equal(generated(small, 1).x_train, generated(small, 2).x_train)


def test_real_data_of_another_shape_are_refused(tmp_path):
    x, y = np.zeros((9, 3), np.uint8), np.arange(9)
    np.savez(tmp_path / "own.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    with pytest.raises(UsageError, match="needs 10 classes and uint8 of shape"):
        workload_data(get_workload("mnist-mlp"), str(tmp_path / "own.npz"), None, 0)


def test_real_data_are_used_where_they_are(tmp_path):
    made = generated(get_workload("mnist-mlp").scaled(400))
    arrays = {"x_train": made.x_train[:, 0], "y_train": made.y_train, "x_test": made.x_test, "y_test": made.y_test}
    np.savez(tmp_path / "own.npz", **{**arrays, "x_test": made.x_test[:, 0]})
    data, about = workload_data(get_workload("mnist-mlp").scaled(300), str(tmp_path / "own.npz"), None, 0)
    assert about == "real data (own)"
    assert np.array_equal(data.x_train, made.x_train[:300])


def test_what_is_written_for_the_programs_is_what_they_read(tmp_path):
    workload = get_workload("mnist-mlp").scaled(300)
    data = generated(workload)
    split = workload_split(workload, data, 0)
    write_inputs(tmp_path, workload, data, split, 0)
    read = read_inputs(write_settings(tmp_path, workload, rounds=2, device="cpu"))
    assert [own.tolist() for own in read.positions] == [own.tolist() for own in split.indices]
    assert read.samples() == read.samples(list(range(10))) == 300 * 5
    assert read.rounds == 3  # one more than is timed
    x, y = read.train()
    assert torch.equal(y, torch.from_numpy(data.y_train))
    assert torch.allclose(x, torch.from_numpy(data.x_train).float() / 127.5 - 1, atol=1e-6)  # mean 0.5, std 0.5
    start = workload_network(workload, 0).start(torch.device("cpu"), torch.float32).params
    assert all(torch.equal(a, b) for a, b in zip(read.model().parameters(), start.values(), strict=True))
