"""Inference with every BatchNorm folded into the convolution before it: for teachers and for evaluation.

w' = w gamma / sqrt(var + eps),  b' = beta - mean gamma / sqrt(var + eps)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from .structure import Block, Structure, Unit
from .values import Tensors


class Layer(NamedTuple):
    """A unit's folded weight as a matrix `[outputs, columns]`, and its bias in float32 or better."""

    weight: Tensor
    bias: Tensor


class Inference(Protocol):
    """The layers of a folded network over channels-last images `[N, H, W, C]`."""

    def rehearse(self, run: Callable[[], object]) -> None: ...

    def patches(self, x: Tensor, columns: int) -> Tensor: ...

    def pointwise(self, x: Tensor, layer: Layer, relu: bool, residual: Tensor | None) -> Tensor: ...

    def depthwise(self, x: Tensor, layer: Layer, stride: int) -> Tensor:
        """With bias and ReLU."""
        ...

    def pooled(self, x: Tensor) -> Tensor: ...


class Folded:
    """A network in eval mode: images `[N, C, H, W]` to logits `[N, classes]` and features `[N, d]`."""

    def __init__(self, structure: Structure, tensors: Tensors, compute: torch.dtype, inference: Inference) -> None:
        self.structure, self.compute, self.inference = structure, compute, inference
        self.layers = {unit.weight: self._folded(unit, tensors) for unit in structure.units()}
        self.classifier = self._classifier(tensors)
        self._rehearsed: set[object] = set()

    @torch.no_grad()
    def refresh(self, tensors: Tensors) -> None:
        """Take other weights, in place: a captured call then uses them."""
        for unit in self.structure.units():
            for old, new in zip(self.layers[unit.weight], self._folded(unit, tensors), strict=True):
                old.copy_(new)
        for old, new in zip(self.classifier, self._classifier(tensors), strict=True):
            old.copy_(new)

    def _folded(self, unit: Unit, tensors: Tensors) -> Layer:
        gamma, beta, mean, var = (
            tensors[f"{unit.norm}.{name}"].detach() for name in ("weight", "bias", "running_mean", "running_var")
        )
        scale = gamma * (var + unit.eps).rsqrt()
        matrix = tensors[unit.weight].detach().flatten(1) * scale[:, None]
        padded = F.pad(matrix, (0, unit.columns - matrix.shape[1]))
        return Layer(padded.to(self.compute), beta - mean * scale)

    def _classifier(self, tensors: Tensors) -> Layer:
        weight, bias = (tensors[f"{self.structure.classifier}.{name}"].detach() for name in ("weight", "bias"))
        return Layer(weight.clone(), bias.clone())

    @torch.no_grad()
    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        kind = (x.shape, x.dtype, x.device)
        if kind not in self._rehearsed:
            self._rehearsed.add(kind)
            self.inference.rehearse(lambda: self(x))
        images = x if x.dim() == 4 else x.unsqueeze(1)
        stem, top = self.structure.stem, self.structure.top
        here = self.inference.patches(images, stem.columns)
        here = self.inference.pointwise(here, self.layers[stem.weight], True, None)
        for block in self.structure.blocks:
            here = self._block(block, here)
        features = self.inference.pooled(self.inference.pointwise(here, self.layers[top.weight], True, None))
        features = features.to(self.classifier.weight.dtype)
        return F.linear(features, *self.classifier), features

    def _block(self, block: Block, x: Tensor) -> Tensor:
        run = self.inference
        around = x if block.residual else None
        if block.shortcut is not None:
            around = run.pointwise(x, self.layers[block.shortcut.weight], False, None)
        inner = run.pointwise(x, self.layers[block.expand.weight], True, None)
        inner = run.depthwise(inner, self.layers[block.filter.weight], block.filter.stride)
        return run.pointwise(inner, self.layers[block.project.weight], False, around)


class PlainInference:
    """In plain PyTorch."""

    def __init__(self, compute: torch.dtype) -> None:
        self.compute = compute

    def rehearse(self, run: Callable[[], object]) -> None:
        """There is nothing to prepare."""

    def patches(self, x: Tensor, columns: int) -> Tensor:
        unfolded = F.unfold(x.to(self.compute), 3, padding=1).transpose(1, 2)
        return F.pad(unfolded, (0, columns - unfolded.shape[-1])).reshape(len(x), *x.shape[2:], columns)

    def pointwise(self, x: Tensor, layer: Layer, relu: bool, residual: Tensor | None) -> Tensor:
        y = F.linear(x, layer.weight, layer.bias.to(x.dtype))
        y = y if residual is None else y + residual
        return y.relu() if relu else y

    def depthwise(self, x: Tensor, layer: Layer, stride: int) -> Tensor:
        weight = layer.weight.view(-1, 1, 3, 3)
        images = x.permute(0, 3, 1, 2)
        y = F.conv2d(images, weight, layer.bias.to(x.dtype), stride, padding=1, groups=len(weight))
        return y.relu().permute(0, 2, 3, 1).contiguous()

    def pooled(self, x: Tensor) -> Tensor:
        return x.mean((1, 2), dtype=torch.promote_types(x.dtype, torch.float32))
