"""Means of token vectors, and their gradients, all clients' at once."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ..models.text import PADDING


def mean_vectors(weight: Tensor, tokens: Tensor) -> Tensor:
    """Mean over all positions of each client's own vectors: weight `[K, V, d]`, tokens `[K, B, L]`."""
    if weight.device.type != "cpu":
        client = torch.arange(len(weight), device=weight.device).view(-1, 1, 1)
        return weight[client, tokens].mean(2)
    if not weight.is_contiguous():
        return torch.cat(
            [mean_vectors(*own) for own in zip(torch.split(weight, 1), torch.split(tokens, 1), strict=True)]
        )
    # A sum as it reads: on a CPU many times faster than to gather all vectors first.
    sums = functional.embedding_bag(_in_one_table(tokens, weight).flatten(0, 1), weight.flatten(0, 1), mode="sum")
    return sums.div_(tokens.shape[-1]).view(*tokens.shape[:2], -1)


def scatter_vectors(slope: Tensor, tokens: Tensor, into: Tensor) -> None:
    """The gradient of `mean_vectors`; the padding token's vector gets none. Summed in a fixed order."""
    share = (slope / tokens.shape[-1]).unsqueeze(2)
    if into.device.type != "cpu":
        client = torch.arange(len(into), device=into.device).view(-1, 1, 1).expand_as(tokens)
        into.zero_().index_put_((client, tokens), share * (tokens != PADDING).unsqueeze(-1), accumulate=True)
        return
    if not into.is_contiguous():
        for own in zip(*(torch.split(each, 1) for each in (slope, tokens, into)), strict=True):
            scatter_vectors(*own)
        return
    each = share.expand(*tokens.shape, -1).reshape(-1, share.shape[-1])
    into.zero_().flatten(0, 1).index_add_(0, _in_one_table(tokens, into).flatten(), each)
    into[:, PADDING] = 0


def _in_one_table(tokens: Tensor, weight: Tensor) -> Tensor:
    """Where the tokens' vectors are, all clients' `[K, V, d]` taken as one table."""
    clients, count, _ = weight.shape
    return tokens + count * torch.arange(clients).view(-1, 1, 1)
