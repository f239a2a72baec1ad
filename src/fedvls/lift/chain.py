"""Chains of Linear layers, after a mean of token vectors where the samples are texts: batched matrix products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from .. import kernels
from ..models.chain import Layer
from ..numerics import full_precision
from .base import Forward, Padding, Tensors
from .vectors import mean_vectors, scatter_vectors


class Chain:
    """K chains at once. Every sample stands by itself, so padding needs no care: its slope is 0.

    Products of a short type are too small to matter to a GPU: in a run of one they are computed in TF32.
    """

    padding: Padding = "any"
    uncounted: frozenset[str] = frozenset()

    def __init__(self, layers: Sequence[Layer], embedding: str | None = None) -> None:
        self.layers, self.embedding = layers, embedding

    def width(self, samples: int) -> int:
        """As wide as it is: captured steps have no use for more."""
        return samples

    def first(self, params: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """What the first layer is given, `[K, B, n]`."""
        return x.flatten(2) if self.embedding is None else mean_vectors(params[self.embedding], x)

    @torch.no_grad()
    def forward(
        self, params: Tensors, buffers: Tensors, x: Tensor, rows: Tensor | None, *, features: bool, statistics: bool
    ) -> Forward:
        outputs = [self.first(params, x)]
        for layer in self.layers:
            outputs.append(_linear(outputs[-1], params, layer))
        last = full_precision(outputs[-2]) if features else None
        return Forward(full_precision(outputs[-1]), last, (params, x, outputs))

    @torch.no_grad()
    def backward(self, forward: Forward, d_logits: Tensor, d_features: Tensor | None, into: Tensors) -> None:
        params, x, outputs = forward.saved
        slope = d_logits
        for number in reversed(range(len(self.layers))):
            layer = self.layers[number]
            slope = _bias_backward(slope, outputs[number + 1], layer, into)
            torch.bmm(slope.transpose(1, 2), outputs[number], out=into[layer.weight])
            if number > 0 or self.embedding is not None:
                slope = torch.bmm(slope, params[layer.weight])
                if number == len(self.layers) - 1 and d_features is not None:
                    slope += d_features
        if self.embedding is not None:
            scatter_vectors(slope, x, into[self.embedding])


def _linear(x: Tensor, params: Mapping[str, Tensor], layer: Layer) -> Tensor:
    """The layer's output, behind its ReLU if it has one."""
    weight = params[layer.weight].transpose(1, 2)
    if layer.bias is not None and kernels.available(x.device):
        return kernels.biased_(torch.bmm(x, weight), params[layer.bias], layer.relu)
    out = torch.bmm(x, weight) if layer.bias is None else torch.baddbmm(params[layer.bias].unsqueeze(1), x, weight)
    return out.relu_() if layer.relu else out


def _bias_backward(slope: Tensor, out: Tensor, layer: Layer, into: Tensors) -> Tensor:
    """The slope before the layer's ReLU, from that of its output; writes the bias's gradient."""
    if layer.bias is not None and kernels.available(slope.device):
        return kernels.bias_backward(slope, out, into[layer.bias], layer.relu)
    if layer.relu:
        slope = torch.ops.aten.threshold_backward(slope, out, 0)
    if layer.bias is not None:
        torch.sum(slope, 1, out=into[layer.bias])
    return slope
