"""Chains of Linear layers, after a mean of token vectors where the samples are texts: batched matrix products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from .. import kernels
from ..models.chain import Layer, linear_chain
from ..models.text import PADDING, FastText
from ..numerics import full_precision, half_precision
from .base import Forward, Padding, Tensors


class Chain:
    """K chains at once. Every sample stands by itself, so padding needs no care: its slope is 0.

    In a run of a short type a CPU multiplies in that type, as autocast would; GPUs, for which such products are too
    small to matter, in TF32.
    """

    padding: Padding = "any"
    uncounted: frozenset[str] = frozenset()

    def __init__(self, layers: Sequence[Layer], embedding: str | None = None) -> None:
        self.layers, self.embedding = layers, embedding

    @torch.no_grad()
    def forward(
        self, params: Tensors, buffers: Tensors, x: Tensor, rows: Tensor | None, *, features: bool, statistics: bool
    ) -> Forward:
        first = x.flatten(2) if self.embedding is None else mean_vectors(params[self.embedding], x)
        short = half_precision() if x.device.type == "cpu" else None
        if short is not None:
            params, first = params | self.shortened(params, short), first.to(short)
        outputs = [first]
        for layer in self.layers:
            outputs.append(_linear(outputs[-1], params, layer))
        last = full_precision(outputs[-2]) if features else None
        return Forward(full_precision(outputs[-1]), last, (params, x, outputs))

    def shortened(self, params: Mapping[str, Tensor], short: torch.dtype) -> Tensors:
        """The layers' parameters in the type of their products."""
        names = (name for layer in self.layers for name in (layer.weight, layer.bias) if name is not None)
        return {name: params[name].to(short) for name in names}

    @torch.no_grad()
    def backward(self, forward: Forward, d_logits: Tensor, d_features: Tensor | None, into: Tensors) -> None:
        params, x, outputs = forward.saved
        slope = d_logits.to(outputs[-1].dtype)
        for number in reversed(range(len(self.layers))):
            layer = self.layers[number]
            slope = _bias_backward(slope, outputs[number + 1], layer, into)
            _product(slope.transpose(1, 2), outputs[number], into[layer.weight])
            if number > 0 or self.embedding is not None:
                slope = torch.bmm(slope, params[layer.weight])
                if number == len(self.layers) - 1 and d_features is not None:
                    slope += d_features
        if self.embedding is not None:
            scatter_vectors(full_precision(slope), x, into[self.embedding])


def _linear(x: Tensor, params: Mapping[str, Tensor], layer: Layer) -> Tensor:
    """The layer's output, behind its ReLU if it has one."""
    weight = params[layer.weight].transpose(1, 2)
    if layer.bias is not None and kernels.available(x.device):
        return kernels.biased_(torch.bmm(x, weight), params[layer.bias], layer.relu)
    out = torch.bmm(x, weight) if layer.bias is None else torch.baddbmm(params[layer.bias].unsqueeze(1), x, weight)
    return out.relu_() if layer.relu else out


def _product(left: Tensor, right: Tensor, into: Tensor) -> None:
    """Batched, written in the type of `into`."""
    if left.dtype == into.dtype:
        torch.bmm(left, right, out=into)
    else:
        into.copy_(torch.bmm(left, right))


def _bias_backward(slope: Tensor, out: Tensor, layer: Layer, into: Tensors) -> Tensor:
    """The slope before the layer's ReLU, from that of its output; writes the bias's gradient."""
    if layer.bias is not None and kernels.available(slope.device):
        return kernels.bias_backward(slope, out, into[layer.bias], layer.relu)
    if layer.relu:
        slope = torch.ops.aten.threshold_backward(slope, out, 0)
    if layer.bias is not None:
        torch.sum(slope, 1, dtype=into[layer.bias].dtype, out=into[layer.bias])
    return slope


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


def chain_of(module: nn.Module) -> Chain | None:
    """The module as a chain, or None if it is anything else."""
    if type(module) is FastText:
        names = ("hidden", "classifier")
        plain = all(type(module.get_submodule(name)) is nn.Linear for name in names)  # MOON puts a head in between
        if plain and all(p.requires_grad for p in module.parameters()):
            return Chain([Layer(f"{name}.weight", f"{name}.bias", False) for name in names], "embedding.weight")
        return None
    found = linear_chain(module)
    return Chain(found) if found else None
