"""The package's own kernels inside the stacked engine: MobileNetV2 as the sequential engine trains it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support import assert_close

import fedvls
from fedvls import kernels


@pytest.fixture(scope="module")
def noise():
    random = np.random.RandomState(0)
    x, y = random.randint(0, 256, (60, 3, 16, 16), dtype=np.uint8), np.arange(60) % 3
    return fedvls.FederatedData.from_arrays(x, y, x[:9], y[:9], name="noise", mean=(0.5,) * 3, std=(0.2,) * 3)


def run(data, method, engine, dtype, **more):
    fed = fedvls.Federation(
        data,
        partition=fedvls.dirichlet(beta=1.0, min_size=5),
        clients=3,
        model="mobilenetv2",
        engine=engine,
        dtype=dtype,
        device="cuda",
        augmentation="cifar",
    )
    return fed.run(method, 2, 2, batch_size=8, lr=0.002, out=None, local_every=100, **more)


@pytest.mark.parametrize("name", ["fedavg", "fedvls", "fedsam", "fpl", "moon"])
def test_two_rounds_end_with_the_sequential_engines_weights(noise, name):
    assert kernels.available(torch.device("cuda"))
    theirs = run(noise, name, "sequential", "float32").weights.tensors()
    mine = run(noise, name, "stacked", "float32").weights.tensors()
    assert_close(mine, theirs, 1e-3 if name in ("fpl", "fedsam", "moon") else 1e-4)


@pytest.mark.parametrize("dtype", ["float32", "tf32", "bf16"])
def test_the_same_bits_twice(noise, dtype):
    first, second = (run(noise, "fedvls", "stacked", dtype).weights.tensors() for _ in range(2))
    assert all(torch.equal(t, second[k]) for k, t in first.items())


def test_auto_takes_them_and_says_so(noise):
    header = run(noise, "fedvls", "auto", "bf16").header
    assert header["engine"]["name"] == "stacked"
