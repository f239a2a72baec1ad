"""The layers of a folded network as Triton kernels: the training kernels with bias and ReLU behind."""

from __future__ import annotations

from collections.abc import Callable

import torch
import triton
from torch import Tensor

from . import depthwise, elementwise, pointwise, tiles
from .folding import Layer
from .launching import rehearse


class FusedInference:
    """`Inference` in bfloat16 or float32: one network, hence a client axis of one."""

    def __init__(self, compute: torch.dtype, tf32: bool) -> None:
        self.compute = compute
        self.numbers = tiles.numbers(compute.itemsize, tf32)
        self.precision = tiles.precision(self.numbers)
        self._rows: dict[tuple[int, torch.device], Tensor] = {}

    def _all(self, x: Tensor) -> Tensor:
        """The number of samples as the kernels read it; made once per batch size, outside any capture."""
        key = len(x), x.device
        if key not in self._rows:
            self._rows[key] = torch.tensor([len(x)], dtype=torch.int32, device=x.device)
        return self._rows[key]

    def rehearse(self, run: Callable[[], object]) -> None:
        rehearse(run)

    def patches(self, x: Tensor, columns: int) -> Tensor:
        samples, channels, height, width = x.shape
        out = x.new_empty((samples, height, width, columns), dtype=self.compute)
        elementwise.patches[(triton.cdiv(samples * height * width, 128), 1)](
            x.contiguous(),
            out,
            self._all(x),
            samples,
            height,
            width,
            channels,
            columns,
            BM=128,
            BC=tiles.power(columns),
        )
        return out

    def pointwise(self, x: Tensor, layer: Layer, relu: bool, residual: Tensor | None) -> Tensor:
        samples, height, width, inputs = x.shape
        outputs, m = len(layer.weight), samples * height * width
        y = x.new_empty((samples, height, width, outputs))
        if residual is None and inputs <= tiles.WIDEN:
            return self._widen(x, layer, relu, y)
        tile = tiles.forward(inputs, outputs, self.numbers)
        pointwise.forward[(triton.cdiv(m, tile.rows) * triton.cdiv(outputs, tile.outputs), 1)](
            x, layer.weight, layer.bias, y, layer.bias, layer.bias, self._all(x), layer.bias,
            y if residual is None else residual,
            m, PER_SAMPLE=height * width, INPUTS=inputs, OUTPUTS=outputs,
            NORMAL=False, STATISTICS=False, BIAS=True, RESIDUAL=residual is not None, RELU=relu,
            PRECISION=self.precision, **tile.launch(),
        )  # fmt: skip
        return y

    def _widen(self, x: Tensor, layer: Layer, relu: bool, y: Tensor) -> Tensor:
        samples, height, width, inputs = x.shape
        outputs, m = len(layer.weight), samples * height * width
        tile = tiles.widen(inputs, outputs, self.numbers)
        blocks = triton.cdiv(outputs, tile.outputs)
        parts, share = tiles.splits(blocks, m, tile)
        pointwise.widen[(blocks, parts, 1)](
            x, layer.weight, y, layer.bias, layer.bias, self._all(x), layer.bias, m, share,
            PER_SAMPLE=height * width, INPUTS=inputs, OUTPUTS=outputs, STATISTICS=False, BIAS=True, RELU=relu,
            PRECISION=self.precision, **tile.launch(),
        )  # fmt: skip
        return y

    def depthwise(self, x: Tensor, layer: Layer, stride: int) -> Tensor:
        samples, height, width, channels = x.shape
        high, wide = ((size - 1) // stride + 1 for size in (height, width))
        band = tiles.depthwise_forward(height, channels, stride)
        parts = band.parts(samples * -(-width // 2))
        y = x.new_empty((samples, high, wide, channels))
        depthwise.forward[(parts * triton.cdiv(channels, band.channels), 1)](
            x, layer.weight, layer.bias, y, layer.bias, layer.bias, self._all(x), layer.bias,
            samples, height, width, channels, stride,
            NORMAL=False, STATISTICS=False, BIAS=True, **band.launch(),
        )  # fmt: skip
        return y

    def pooled(self, x: Tensor) -> Tensor:
        samples, height, width, channels = x.shape
        out = x.new_empty((samples, channels), dtype=torch.float32)
        elementwise.pooled[(triton.cdiv(channels, 128) * triton.cdiv(samples, 8), 1)](
            x, out, out, self._all(x), samples, height * width, channels, NORMAL=False, BS=8, BC=128
        )
        return out
