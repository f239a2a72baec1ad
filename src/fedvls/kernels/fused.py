"""The operations as Triton kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
from torch import Tensor

from . import depthwise, depthwise_backward, elementwise, narrow, pointwise, statistics, tiles
from .launching import rehearse
from .packing import Packing
from .values import Delta, Parts, Raw, Source, Statistics, Tensors, Tracked


def _geometry(x: Tensor) -> tuple[int, int, int, int, int]:
    """Clients, batch, positions per sample, rows and channels of an activation."""
    clients, batch, height, width, channels = x.shape
    return clients, batch, height * width, batch * height * width, channels


def _statistics(clients: int, parts: int, channels: int, device: torch.device) -> Statistics:
    """Room for the statistics of so many tiles."""
    values = torch.empty((clients, parts, 2, channels), dtype=torch.float32, device=device)
    return Statistics(values, torch.empty((clients, parts), dtype=torch.float32, device=device))


NOTHING = {"SIZE": 0, "ROW": 1, "KEPT": 1, "BS": 1, "BLOCK": 16}
"""The options of `_summing` where there is nothing to add."""


def _summing(left: Parts) -> tuple[int, dict[str, int]]:
    """Programs per client that add the parts, and how."""
    parts, outputs, inputs = left.values.shape[1:]
    kept = left.into[0, 0].numel()
    together = tiles.together(parts)
    block = 1024 // together
    options = {"SIZE": outputs * inputs, "ROW": inputs, "KEPT": kept, "BS": together, "BLOCK": block}
    return triton.cdiv(outputs * kept, block), options


class Fused:
    """`Operations` on one device, in bfloat16 or float32."""

    def __init__(self, compute: torch.dtype, tf32: bool) -> None:
        self.compute = compute
        self.numbers = tiles.numbers(compute.itemsize, tf32)
        self.precision = tiles.precision(self.numbers)
        self._packing: dict[Any, Packing] = {}

    def weights(self, params: Tensors, columns: dict[str, int]) -> Tensors:
        tensors = {name: params[name] for name in columns}
        key = Packing.key(tensors)
        if key not in self._packing:
            self._packing[key] = Packing(tensors, columns)
        return self._packing[key](tensors, self.compute)

    def rehearse(self, run: Callable[[], object]) -> None:
        rehearse(run)

    def patches(self, x: Tensor, columns: int, rows: Tensor) -> Tensor:
        clients, batch, channels, height, width = x.shape
        out = x.new_empty((clients, batch, height, width, columns), dtype=self.compute)
        grid = (triton.cdiv(batch * height * width, 128), clients)
        elementwise.patches[grid](
            x.contiguous(), out, rows, batch, height, width, channels, columns, BM=128, BC=tiles.power(columns)
        )
        return out

    def pointwise(self, x: Tensor, w: Tensor, normal: Tensor | None, rows: Tensor) -> tuple[Tensor, Statistics]:
        clients, _, per_sample, m, inputs = _geometry(x)
        outputs = w.shape[1]
        y = x.new_empty((*x.shape[:-1], outputs))
        if normal is None and inputs <= tiles.WIDEN:
            return y, self._widen(x, w, y, rows)
        tile = tiles.forward(inputs, outputs, self.numbers)
        tile = tiles.dealt(tile, m, clients * triton.cdiv(outputs, tile.outputs))
        parts = triton.cdiv(m, tile.rows)
        made = _statistics(clients, parts, outputs, x.device)
        pointwise.forward[(parts * triton.cdiv(outputs, tile.outputs), clients)](
            x, w, made.values if normal is None else normal, y, *made, rows, made.values, made.values, m,
            PER_SAMPLE=per_sample, INPUTS=inputs, OUTPUTS=outputs,
            NORMAL=normal is not None, STATISTICS=True, BIAS=False, RESIDUAL=False, RELU=False,
            PRECISION=self.precision, **tile.launch(),
        )  # fmt: skip
        return y, made

    def _widen(self, x: Tensor, w: Tensor, y: Tensor, rows: Tensor) -> Statistics:
        clients, _, per_sample, m, inputs = _geometry(x)
        outputs = w.shape[1]
        tile = tiles.widen(inputs, outputs, self.numbers)
        blocks = triton.cdiv(outputs, tile.outputs)
        parts, share = tiles.splits(clients * blocks, m, tile)
        made = _statistics(clients, parts, outputs, x.device)
        pointwise.widen[(blocks, parts, clients)](
            x, w, y, *made, rows, made.values, m, share, PER_SAMPLE=per_sample, INPUTS=inputs, OUTPUTS=outputs,
            STATISTICS=True, BIAS=False, RELU=False, PRECISION=self.precision, **tile.launch(),
        )  # fmt: skip
        return made

    def depthwise(self, x: Tensor, w: Tensor, normal: Tensor, stride: int, rows: Tensor) -> tuple[Tensor, Statistics]:
        clients, batch, height, width, channels = x.shape
        high, wide = ((size - 1) // stride + 1 for size in (height, width))
        band = tiles.depthwise_forward(height, channels, stride)
        parts = band.parts(batch * -(-width // 2))
        y = x.new_empty((clients, batch, high, wide, channels))
        made = _statistics(clients, parts, channels, x.device)
        depthwise.forward[(parts * triton.cdiv(channels, band.channels), clients)](
            x, w, normal, y, *made, rows, normal, batch, height, width, channels, stride,
            NORMAL=True, STATISTICS=True, BIAS=False, **band.launch(),
        )  # fmt: skip
        return y, made

    def normalise(
        self,
        statistics_: Statistics,
        rows: Tensor,
        gamma: Tensor,
        beta: Tensor,
        tracked: Tracked | None,
        eps: float,
        momentum: float,
    ) -> Tensor:
        values, counts = statistics_
        clients, parts, _, channels = values.shape
        normal = values.new_empty((clients, 4, channels))
        mean, var, batches = (values if t is None else t for t in tracked or (None, None, None))
        statistics.normalise[(triton.cdiv(channels, 16), clients)](
            values, counts, rows, gamma, beta, mean, var, batches, normal, parts,
            *(tensor.stride(0) for tensor in (gamma, beta, mean, var, batches)), eps, momentum,
            C=channels, TRACK=tracked is not None, COUNT=tracked is not None and tracked.batches is not None,
            ONCE=parts <= 512, BT=tiles.covering(parts), BC=16,
            num_warps=8 if parts > 128 else 4,
        )  # fmt: skip
        return normal

    def joined(self, unit: Raw, relu: bool, shortcut: Tensor | Raw | None, rows: Tensor) -> Tensor:
        clients, _, per_sample, m, channels = _geometry(unit.y)
        other, normal = shortcut if isinstance(shortcut, Raw) else (shortcut, None)
        kind = 0 if other is None else 1 if normal is None else 2
        out = torch.empty_like(unit.y)
        block = tiles.power(channels, most=64)
        elementwise.joined[(triton.cdiv(m, 64), clients)](
            unit.y, unit.normal, unit.y if other is None else other, unit.normal if normal is None else normal,
            out, rows, m, PER_SAMPLE=per_sample, C=channels, RELU=relu, SHORTCUT=kind, BM=64, BC=block,
        )  # fmt: skip
        return out

    def pooled(self, unit: Raw, rows: Tensor) -> Tensor:
        clients, batch, per_sample, _, channels = _geometry(unit.y)
        out = unit.normal.new_empty((clients, batch, channels))
        elementwise.pooled[(triton.cdiv(channels, 128) * triton.cdiv(batch, 8), clients)](
            unit.y, unit.normal, out, rows, batch, per_sample, channels, NORMAL=True, BS=8, BC=128
        )
        return out

    def pooled_backward(self, d_features: Tensor, unit: Raw, rows: Tensor) -> tuple[Tensor, Tensor]:
        clients, batch, per_sample, _, channels = _geometry(unit.y)
        g = torch.empty_like(unit.y)
        parts = triton.cdiv(batch, 16)
        partial = unit.normal.new_empty((clients, parts, 2, channels))
        elementwise.pooled_backward[(triton.cdiv(channels, 64), parts, clients)](
            d_features.contiguous(), unit.y, unit.normal, g, partial, rows, batch, per_sample, channels, BS=16, BC=64
        )
        return g, partial

    def moments(
        self,
        sums: Tensor,
        which: int,
        g: Tensor,
        unit: Raw,
        rows: Tensor,
        into: tuple[Tensor, Tensor],
        left: Parts | None = None,
    ) -> Delta:
        clients, _, per_sample, _, channels = _geometry(g)
        parts, count = sums.shape[1:3]
        coefficients = sums.new_empty((clients, 3, channels))
        values, target = left or (sums, sums)
        more, options = (0, NOTHING) if left is None else _summing(left)
        statistics.moments[(triton.cdiv(channels, 16) + more, clients)](
            sums, rows, unit.normal, coefficients, *into, parts, into[0].stride(0), into[1].stride(0),
            values, target, target.stride(0), values.shape[1],
            POSITIONS=per_sample, SUMS=count, WHICH=which, C=channels, BT=min(tiles.covering(parts), 256), BC=16,
            **options,
        )  # fmt: skip
        return Delta(g, unit.y, coefficients)

    def summed(self, left: Parts) -> None:
        blocks, options = _summing(left)
        values, into = left
        statistics.summed[(blocks, len(into))](values, into, into.stride(0), values.shape[1], **options)

    def output_gradients(self, delta: Delta, rows: Tensor, out: Tensor) -> Tensor:
        """dy written out, real samples only."""
        clients, _, per_sample, m, channels = _geometry(delta.g)
        elementwise.output_gradients[(triton.cdiv(m, 64), clients)](
            *delta, out, rows, m, PER_SAMPLE=per_sample, C=channels, BM=64, BC=tiles.power(channels, most=64)
        )
        return out

    def pointwise_backward(
        self, delta: Delta, w: Tensor, source: Source, rows: Tensor, into: Tensor, residual: Tensor | None, wanted: bool
    ) -> tuple[Tensor, Tensor, Parts | None]:
        outputs, inputs = w.shape[1:]
        if source.normal is not None and outputs <= tiles.PROJECT:
            return self._project_backward(delta, w, source, source.normal, rows, into)
        few = inputs <= tiles.EXPAND[0] and outputs <= tiles.EXPAND[1]
        if wanted and few and source.normal is None:
            return self._expand_backward(delta, w, source, rows, into, residual)
        left = self._weight_gradient(delta, source, rows, into)
        found = self._input_gradient(delta, w, source, rows, residual) if wanted else (delta.g, delta.coefficients)
        return *found, left

    def _project_backward(
        self, delta: Delta, w: Tensor, source: Source, normal: Tensor, rows: Tensor, into: Tensor
    ) -> tuple[Tensor, Tensor, Parts | None]:
        clients, _, per_sample, m, inputs = _geometry(source.x)
        outputs = w.shape[1]
        tile = tiles.project_backward(inputs, outputs, self.numbers)
        blocks = triton.cdiv(inputs, tile.inputs)
        parts, share = tiles.splits(clients * blocks, m, tile)
        dx = torch.empty_like(source.x)
        partial = normal.new_empty((clients, parts, 2, inputs))
        weights = normal.new_empty((clients, parts, outputs, inputs))
        dy = self.output_gradients(delta, rows, torch.empty_like(delta.g))
        narrow.project[(blocks, parts, clients)](
            dy, w, source.x, normal, dx, partial, weights, rows, m, share,
            PER_SAMPLE=per_sample, INPUTS=inputs, OUTPUTS=outputs, PRECISION=self.precision,
            BR=tiles.power(outputs - tile.outputs), **tile.launch(),
        )  # fmt: skip
        return dx, partial, Parts(weights, into)

    def _expand_backward(
        self, delta: Delta, w: Tensor, source: Source, rows: Tensor, into: Tensor, residual: Tensor | None
    ) -> tuple[Tensor, Tensor, Parts | None]:
        clients, _, per_sample, m, inputs = _geometry(source.x)
        outputs = w.shape[1]
        tile = tiles.expand_backward(inputs, outputs, self.numbers)
        parts, share = tiles.splits(clients, m, tile)
        dx = torch.empty_like(source.x)
        sums = 1 + len(source.made_by) if source.made_by else 0
        partial = delta.coefficients.new_empty((clients, parts, sums, inputs))
        weights = delta.coefficients.new_empty((clients, parts, outputs, inputs))
        unused = Raw(delta.g, delta.coefficients)
        first, second = (*source.made_by, unused, unused)[:2]
        narrow.expand[(parts, clients)](
            *delta, w, source.x, dx, partial, weights, rows, dx if residual is None else residual, *first, *second,
            m, share, PER_SAMPLE=per_sample, INPUTS=inputs, OUTPUTS=outputs,
            RESIDUAL=residual is not None, RELU=source.relu, SUMS=sums, PRECISION=self.precision,
            BR=tiles.power(outputs - tile.outputs), **tile.launch(),
        )  # fmt: skip
        return dx, partial, Parts(weights, into)

    def _input_gradient(
        self, delta: Delta, w: Tensor, source: Source, rows: Tensor, residual: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        clients, _, per_sample, m, inputs = _geometry(source.x)
        outputs = w.shape[1]
        tile = tiles.input_gradient(inputs, outputs, self.numbers)
        tile = tiles.dealt(tile, m, clients * triton.cdiv(inputs, tile.inputs))
        parts = triton.cdiv(m, tile.rows)
        dx = torch.empty_like(source.x)
        sums = 1 + len(source.made_by) if source.made_by else 0
        partial = dx.new_empty((clients, parts, sums, inputs), dtype=torch.float32)
        unused = Raw(delta.g, delta.coefficients)
        first, second = (*source.made_by, unused, unused)[:2]
        pointwise.input_gradient[(parts * triton.cdiv(inputs, tile.inputs), clients)](
            *delta, w, dx, partial, rows, dx if residual is None else residual, *first, *second, m,
            PER_SAMPLE=per_sample, INPUTS=inputs, OUTPUTS=outputs,
            RESIDUAL=residual is not None, RELU=source.relu, SUMS=sums, PRECISION=self.precision,
            **tile.launch(),
        )  # fmt: skip
        return dx, partial

    def _weight_gradient(self, delta: Delta, source: Source, rows: Tensor, into: Tensor) -> Parts | None:
        clients, _, per_sample, m, inputs = _geometry(source.x)
        outputs = delta.g.shape[-1]
        tile = tiles.weight_gradient(inputs, outputs, self.numbers)
        blocks = triton.cdiv(inputs, tile.inputs) * triton.cdiv(outputs, tile.outputs)
        parts, share = tiles.splits(clients * blocks, m, tile)
        direct = parts == 1 and into[0, 0].numel() == inputs
        shape = (clients, parts, outputs, inputs)
        out = into if direct else source.x.new_empty(shape, dtype=torch.float32)
        pointwise.weight_gradient[(blocks, parts, clients)](
            *delta, source.x, out if source.normal is None else source.normal, out, out.stride(0), rows, m, share,
            PER_SAMPLE=per_sample, INPUTS=inputs, OUTPUTS=outputs, NORMAL=source.normal is not None,
            PRECISION=self.precision, **tile.launch(),
        )  # fmt: skip
        return None if direct else Parts(out, into)

    def depthwise_backward(
        self, delta: Delta, w: Tensor, source: Raw, stride: int, rows: Tensor, into: Tensor
    ) -> tuple[Tensor, Tensor, Parts | None]:
        clients, batch, height, width, channels = source.y.shape
        band = tiles.depthwise_backward(height)
        parts = band.parts(batch * -(-width // 2))
        dx = torch.empty_like(source.y)
        partial = dx.new_empty((clients, parts, 2, channels), dtype=torch.float32)
        weights = dx.new_empty((clients, parts, channels, 9), dtype=torch.float32)
        depthwise_backward.backward[(parts * triton.cdiv(channels, band.channels), clients)](
            *delta, w, *source, dx, partial, weights, rows, batch, height, width, channels, stride,
            **band.launch(),
        )  # fmt: skip
        return dx, partial, Parts(weights, into)
