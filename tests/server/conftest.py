"""Clients' models as a server sees them."""

from __future__ import annotations

import pytest
import torch

from fedvls import ServerInputs

SHAPES = {"layer.weight": (4, 3), "layer.bias": (4,), "scale": ()}


@pytest.fixture(scope="session")
def draw_round():
    """`draw_round(weights, ...)`: a start model and one random client per weight."""

    def draw(weights, seed=0, dtype=torch.float64, **more) -> ServerInputs:
        random = torch.Generator().manual_seed(seed)
        start, *clients = (
            {
                name: torch.randn(shape, generator=random, dtype=torch.float64).to(dtype)
                for name, shape in SHAPES.items()
            }
            for _ in range(1 + len(weights))
        )
        return ServerInputs(start, clients, weights, **more)

    return draw


@pytest.fixture(scope="session")
def flat():
    """A model as one row of numbers."""
    return lambda tensors: torch.cat([tensor.double().flatten() for tensor in tensors.values()])
