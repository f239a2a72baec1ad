"""Chains of Linear layers on a CPU.

What lies between two layers is kept feature by feature, `[K, n, B]`: then the larger factor of most products, a weight,
is read row by row, and the objective finds its classes before the samples (`kernels/plain_objective.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from ..numerics import full_precision, half_precision
from .base import Forward, Tensors
from .chain import Chain
from .products import (
    aligned,
    by_onednn,
    each_aligned,
    good_width,
    plus_product,
    suits_onednn,
    times_transposed,
    transposed_times,
)
from .vectors import scatter_vectors

Land = Callable[[str, int, Tensor], None]
"""What is done with a client's gradient of a parameter, by name, as soon as it is there."""


class Columns(Chain):
    """K chains at once. In a run of a short type products are computed in that type, as autocast would.

    Called where gradients are off: to turn them off here again would cost every step as much as a small product.
    """

    def width(self, samples: int) -> int:
        """Short types are multiplied by oneDNN, and texts have little to multiply."""
        if half_precision() is not None:
            return samples
        return aligned(samples) if self.embedding is not None else good_width(samples)

    def forward(
        self, params: Tensors, buffers: Tensors, x: Tensor, rows: Tensor | None, *, features: bool, statistics: bool
    ) -> Forward:
        first, short = self.first(params, x), half_precision()
        params = params | {layer.weight: each_aligned(params[layer.weight]) for layer in self.layers}
        if short is not None:
            params, first = params | self.shortened(params, short), first.to(short)
        columns = [first.mT]
        for layer in self.layers:
            bias = params[layer.bias] if layer.bias is not None else None
            out = plus_product(bias, params[layer.weight], columns[-1].mT)
            columns.append(out.relu_() if layer.relu else out)
        last = full_precision(columns[-2]).mT if features else None
        return Forward(full_precision(columns[-1]).mT, last, (params, x, columns))

    def shortened(self, params: Mapping[str, Tensor], short: torch.dtype) -> Tensors:
        """The layers' parameters in the type of their products."""
        names = (name for layer in self.layers for name in (layer.weight, layer.bias) if name is not None)
        return {name: params[name].to(short) for name in names}

    def inference(self, params: Mapping[str, Tensor]) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        """Logits and features of one network's samples. Its parameters are shortened once, not for every batch."""
        short = half_precision()
        own = params if short is None else {**params, **self.shortened(params, short)}
        one = {name: tensor.unsqueeze(0) for name, tensor in own.items()}

        def see(x: Tensor) -> tuple[Tensor, Tensor]:
            found = self.forward(one, {}, x.unsqueeze(0), None, features=True, statistics=False)
            assert found.features is not None
            return found.logits[0].contiguous(), found.features[0]

        return see

    def backward(
        self, forward: Forward, d_logits: Tensor, d_features: Tensor | None, into: Tensors, land: Land | None = None
    ) -> None:
        """land: for gradients that come client by client, in place of writing them; by then the parameter has been
        read for the last time. Between two such calls nothing else is computed, so that it finds them in the cache."""
        params, x, columns = forward.saved
        slope = d_logits.mT.to(columns[-1].dtype, memory_format=torch.contiguous_format)
        for number in reversed(range(len(self.layers))):
            layer = self.layers[number]
            if layer.relu:
                slope = torch.ops.aten.threshold_backward.default(slope, columns[number + 1], 0)
            if layer.bias is not None:
                torch.sum(slope, 2, dtype=into[layer.bias].dtype, out=into[layer.bias])
            above = slope
            if number > 0 or self.embedding is not None:
                slope = transposed_times(params[layer.weight], above)
                if number == len(self.layers) - 1 and d_features is not None:
                    slope += d_features.mT
            if land is not None and suits_onednn(above, columns[number].shape[1]):
                for client, gradient in enumerate(by_onednn(above, columns[number])):
                    land(layer.weight, client, gradient)
            else:
                times_transposed(above, columns[number], into[layer.weight])
        if self.embedding is not None:
            scatter_vectors(full_precision(slope).mT.contiguous(), x, into[self.embedding])
