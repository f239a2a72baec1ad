"""What the tests of models share: every registered model with the samples it is meant for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from fedvls.models import Network, build_network
from fedvls.models.network import ModelState

CPU = torch.device("cpu")
Built = tuple[Network, ModelState]


@pytest.fixture(scope="session")
def built() -> Callable[..., Built]:
    """`built(model, sample_shape, classes, seed)`: a network and its start state, which tests must not write to."""
    cache: dict[str, Built] = {}

    def get(
        model: str | dict[str, Any], shape: tuple[int, ...], classes: int = 10, seed: int = 0, **sizes: int
    ) -> Built:
        key = repr((model, shape, classes, seed, sizes))
        if key not in cache:
            if len(cache) == 4:  # the oldest goes: all at once would be gigabytes
                del cache[next(iter(cache))]
            network = build_network(model, shape, classes, seed, **sizes)
            cache[key] = network, network.start(CPU, torch.float32)
        return cache[key]

    return get


@pytest.fixture
def samples() -> Callable[..., Tensor]:
    """`samples(shape, n)`: images or, for one axis, token numbers from 1 to 49 and two of padding at the end."""

    def draw(shape: tuple[int, ...], n: int = 4, seed: int = 0) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        if len(shape) > 1:
            return torch.randn(n, *shape, generator=generator)
        tokens = torch.randint(1, 50, (n, *shape), generator=generator)
        tokens[:, -2:] = 0
        return tokens

    return draw
