"""Means of token vectors and their gradients, all clients' at once."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from fedvls.lift.vectors import mean_vectors, scatter_vectors


@pytest.mark.parametrize("between", [0, 5], ids=["side by side", "with other weights between the clients"])
@pytest.mark.parametrize("clients", [1, 3])
def test_means_of_vectors_and_their_gradients_are_autograds(clients, between):
    """Against `torch.nn.functional.embedding`, client by client; the vector of padding, number 0, gets no gradient."""
    draw = torch.Generator().manual_seed(0)
    count, dimension = 11, 4

    def stacked(fill):
        whole = torch.full((clients, count * dimension + between), fill, dtype=torch.float64)
        return whole, whole[:, : count * dimension].view(clients, count, dimension)

    _, weight = stacked(0.0)
    weight.copy_(torch.randn(weight.shape, generator=draw, dtype=torch.float64))
    tokens = torch.randint(0, count, (clients, 6, 5), generator=draw)
    slope = torch.randn(clients, 6, dimension, generator=draw, dtype=torch.float64)
    memory, into = stacked(7.0)
    means = mean_vectors(weight, tokens)
    scatter_vectors(slope, tokens, into)
    for k in range(clients):
        leaf = weight[k].clone().requires_grad_()
        wanted = functional.embedding(tokens[k], leaf, padding_idx=0).mean(1)
        torch.testing.assert_close(means[k], wanted.detach(), rtol=1e-13, atol=1e-14)
        [gradient] = torch.autograd.grad(wanted, leaf, slope[k])
        torch.testing.assert_close(into[k], gradient, rtol=1e-13, atol=1e-14)
    assert bool((memory[:, count * dimension :] == 7).all())
