"""Forward and backward pass of K networks at once, layer by layer, over any implementation of the operations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..lift.base import Forward, Padding
from .structure import Block, Structure, Unit
from .values import Delta, Operations, Parts, Raw, Source, Statistics, Tensors, Tracked


class BlockPass(NamedTuple):
    """What a block's backward pass needs of its forward pass."""

    source: Source
    expand: Raw
    filter: Raw
    project: Raw
    shortcut: Raw | None

    def made(self) -> tuple[Raw, ...]:
        """The units whose outputs were added to make the block's."""
        return (self.project,) if self.shortcut is None else (self.project, self.shortcut)


@dataclass(frozen=True)
class Pass:
    """What the backward pass needs of a forward pass."""

    operations: Operations
    rows: Tensor
    weights: Tensors
    classifier: Tensor
    patches: Tensor
    stem: Raw
    blocks: list[BlockPass]
    top_source: Source
    top: Raw
    features: Tensor


class ConvNet:
    """`Lifted` for networks of inverted residuals."""

    padding: Padding = "any"
    uncounted: frozenset[str] = frozenset()
    embedding: str | None = None

    def __init__(self, structure: Structure, operations: Callable[[torch.device], Operations]) -> None:
        self.structure = structure
        self.operations = operations
        self.columns = {unit.weight: unit.columns for unit in structure.units()}
        self._rehearsed: set[object] = set()

    def width(self, samples: int) -> int:
        """As wide as it is."""
        return samples

    @torch.no_grad()
    def forward(
        self, params: Tensors, buffers: Tensors, x: Tensor, rows: Tensor | None, *, features: bool, statistics: bool
    ) -> Forward:
        ops = self.operations(x.device)
        if rows is None:
            rows = torch.full(x.shape[:1], x.shape[1], dtype=torch.int32, device=x.device)
        kind = (x.shape, x.dtype, x.device, statistics)
        if kind not in self._rehearsed:
            self._rehearsed.add(kind)
            ops.rehearse(lambda: self._rehearsal(params, buffers, x, rows, statistics))
        step = _Step(ops, ops.weights(params, self.columns), params, buffers, rows, statistics)
        images = x if x.dim() == 5 else x.unsqueeze(2)
        patches = ops.patches(images, self.structure.stem.columns, rows)
        stem = step.pointwise(self.structure.stem, patches)
        source = Source(ops.joined(stem, True, None, rows), None, (stem,), relu=True)
        blocks = []
        for block in self.structure.blocks:
            made, source = step.block(block, source)
            blocks.append(made)
        top = step.pointwise(self.structure.top, source.x)
        pooled = ops.pooled(top, rows)
        weight, bias = (params[f"{self.structure.classifier}.{name}"].to(pooled.dtype) for name in ("weight", "bias"))
        # Turned round, because the library has a faster product for few rows than for few columns.
        logits = torch.baddbmm(bias[..., None], weight, pooled.mT).mT
        saved = Pass(ops, rows, step.weights, weight, patches, stem, blocks, source, top, pooled)
        return Forward(logits, pooled if features else None, saved)

    @torch.no_grad()
    def backward(self, forward: Forward, d_logits: Tensor, d_features: Tensor | None, into: Tensors) -> None:
        saved: Pass = forward.saved
        ops, rows = saved.operations, saved.rows
        d_features = self._classifier_backward(saved, d_logits, d_features, into)
        back = _Backward(ops, saved.weights, rows, into)
        g, sums = ops.pooled_backward(d_features, saved.top, rows)
        delta = back.delta(self.structure.top, sums, 1, g, saved.top)
        g, sums = back.pointwise(self.structure.top, delta, saved.top_source)
        for block, made in zip(reversed(self.structure.blocks), reversed(saved.blocks), strict=True):
            g, sums = back.block(block, made, g, sums)
        delta = back.delta(self.structure.stem, sums, 1, g, saved.stem)
        back.pointwise(self.structure.stem, delta, Source(saved.patches, None, (), relu=False), wanted=False)
        back.finish()

    def _rehearsal(self, params: Tensors, buffers: Tensors, x: Tensor, rows: Tensor | None, statistics: bool) -> None:
        forward = self.forward(params, buffers, x, rows, features=True, statistics=statistics)
        self.backward(forward, forward.logits, None, {name: torch.empty_like(param) for name, param in params.items()})

    def _classifier_backward(self, saved: Pass, d_logits: Tensor, d_features: Tensor | None, into: Tensors) -> Tensor:
        name = self.structure.classifier
        real = torch.arange(d_logits.shape[1], device=d_logits.device) < saved.rows[:, None]
        d_logits = torch.where(real[..., None], d_logits, 0.0).to(saved.features.dtype)
        into[f"{name}.weight"].copy_(d_logits.mT @ saved.features)
        into[f"{name}.bias"].copy_(d_logits.sum(1))
        through = d_logits @ saved.classifier
        return through if d_features is None else through + d_features


class _Step(NamedTuple):
    """A forward pass under way."""

    operations: Operations
    weights: Tensors
    params: Tensors
    buffers: Tensors
    rows: Tensor
    statistics: bool

    def pointwise(self, unit: Unit, x: Tensor, normal: Tensor | None = None) -> Raw:
        y, statistics = self.operations.pointwise(x, self.weights[unit.weight], normal, self.rows)
        return self._normalised(unit, y, statistics)

    def _normalised(self, unit: Unit, y: Tensor, statistics: Statistics) -> Raw:
        names = ("running_mean", "running_var", "num_batches_tracked")
        tracked = Tracked(*(self.buffers[f"{unit.norm}.{name}"] for name in names)) if self.statistics else None
        gamma, beta = self.params[f"{unit.norm}.weight"], self.params[f"{unit.norm}.bias"]
        return Raw(y, self.operations.normalise(statistics, self.rows, gamma, beta, tracked, unit.eps, unit.momentum))

    def block(self, block: Block, source: Source) -> tuple[BlockPass, Source]:
        """What the block leaves for its backward pass, and its output as the next one's input."""
        x, ops = source.x, self.operations
        expand = self.pointwise(block.expand, x)
        y, statistics = ops.depthwise(
            expand.y, self.weights[block.filter.weight], expand.normal, block.filter.stride, self.rows
        )
        middle = self._normalised(block.filter, y, statistics)
        project = self.pointwise(block.project, middle.y, middle.normal)
        shortcut = None if block.shortcut is None else self.pointwise(block.shortcut, x)
        around = shortcut if shortcut is not None else x if block.residual else None
        made = BlockPass(source, expand, middle, project, shortcut)
        return made, Source(ops.joined(project, False, around, self.rows), None, made.made(), relu=False)


@dataclass
class _Backward:
    """A backward pass under way."""

    operations: Operations
    weights: Tensors
    rows: Tensor
    into: Tensors
    left: Parts | None = None
    """The last convolution's gradient, if it is still in parts."""

    def delta(self, unit: Unit, sums: Tensor, which: int, g: Tensor, made: Raw) -> Delta:
        into = self.into[f"{unit.norm}.weight"], self.into[f"{unit.norm}.bias"]
        left, self.left = self.left, None
        return self.operations.moments(sums, which, g, made, self.rows, into, left)

    def finish(self) -> None:
        if self.left is not None:
            self.operations.summed(self.left)

    def pointwise(
        self, unit: Unit, delta: Delta, source: Source, residual: Tensor | None = None, wanted: bool = True
    ) -> tuple[Tensor, Tensor]:
        weight, into = self.weights[unit.weight], self.into[unit.weight]
        g, sums, self.left = self.operations.pointwise_backward(
            delta, weight, source, self.rows, into, residual, wanted
        )
        return g, sums

    def depthwise(self, unit: Unit, delta: Delta, source: Raw) -> tuple[Tensor, Tensor]:
        weight, into = self.weights[unit.weight], self.into[unit.weight]
        g, sums, self.left = self.operations.depthwise_backward(delta, weight, source, unit.stride, self.rows, into)
        return g, sums

    def block(self, block: Block, made: BlockPass, g: Tensor, sums: Tensor) -> tuple[Tensor, Tensor]:
        """The gradient of the block's input, and its sums, from those of its output."""
        delta = self.delta(block.project, sums, 1, g, made.project)
        lazy = Source(made.filter.y, made.filter.normal, (made.filter,), relu=True)
        inner, inner_sums = self.pointwise(block.project, delta, lazy)
        delta = self.delta(block.filter, inner_sums, 1, inner, made.filter)
        inner, inner_sums = self.depthwise(block.filter, delta, made.expand)
        residual = g if block.residual else None
        if block.shortcut is not None and made.shortcut is not None:
            around = self.delta(block.shortcut, sums, 2, g, made.shortcut)
            residual, _ = self.pointwise(block.shortcut, around, Source(made.source.x, None, (), relu=False))
        delta = self.delta(block.expand, inner_sums, 1, inner, made.expand)
        return self.pointwise(block.expand, delta, made.source, residual)
