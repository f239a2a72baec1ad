"""What a module is built of, read off its layers: the networks these kernels know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import nn

from ..models.layers import GlobalAverage, Images
from ..models.mobilenetv2 import InvertedResidual

Kind = Literal["pointwise", "depthwise", "dense"]


@dataclass(frozen=True)
class Unit:
    """A convolution without bias and the BatchNorm behind it."""

    kind: Kind
    weight: str
    """Name of the convolution's weight in the module."""
    norm: str
    """Name of the BatchNorm."""
    columns: int
    """Columns of the weight as a matrix: inputs, 9 for a depthwise one, 9 x inputs padded to a multiple of 16."""
    stride: int
    eps: float
    momentum: float


@dataclass(frozen=True)
class Block:
    """Widen, filter, narrow, and the way around."""

    expand: Unit
    filter: Unit
    project: Unit
    shortcut: Unit | None
    residual: bool


@dataclass(frozen=True)
class Structure:
    """A dense 3x3 convolution, blocks, a 1x1 convolution, the global average and a linear classifier."""

    stem: Unit
    blocks: tuple[Block, ...]
    top: Unit
    classifier: str

    def units(self) -> list[Unit]:
        inner = [unit for b in self.blocks for unit in (b.expand, b.filter, b.project, b.shortcut) if unit is not None]
        return [self.stem, *inner, self.top]


def structure(module: nn.Module) -> Structure | None:
    """The module's structure, or None where it is another one."""
    parts = dict(module.named_children())
    if set(parts) != {"images", "stem", "blocks", "top", "average", "classifier"} or not isinstance(
        module, nn.Sequential
    ):
        return None
    stem = _unit(parts["stem"], "stem", relu=True)
    top = _unit(parts["top"], "top", relu=True)
    blocks = [_block(child, f"blocks.{name}") for name, child in parts["blocks"].named_children()]
    found = [block for block in blocks if block is not None]
    head = parts["classifier"]
    known = (
        list(parts) == ["images", "stem", "blocks", "top", "average", "classifier"]
        and isinstance(parts["images"], Images)
        and isinstance(parts["average"], GlobalAverage)
        and isinstance(head, nn.Linear)
        and head.bias is not None
        and all(p.requires_grad for p in module.parameters())
        and bool(blocks)
        and len(found) == len(blocks)
    )
    if not known or stem is None or top is None or stem.kind != "dense" or top.kind != "pointwise":
        return None
    return Structure(stem, tuple(found), top, "classifier")


def _block(module: nn.Module, path: str) -> Block | None:
    if type(module) is not InvertedResidual:
        return None
    layers = list(module.body)
    if [type(layer) for layer in layers[2::3]] != [nn.ReLU, nn.ReLU] or len(layers) != 8:
        return None
    expand, middle, project = (_pair(layers, first, f"{path}.body") for first in (0, 3, 6))
    shortcut = _pair(list(module.shortcut), 0, f"{path}.shortcut") if len(module.shortcut) else None
    if expand is None or middle is None or project is None or (len(module.shortcut) and shortcut is None):
        return None
    pointwise = [unit.kind for unit in (expand, project, shortcut) if unit is not None]
    if set(pointwise) != {"pointwise"} or middle.kind != "depthwise":
        return None
    return Block(expand, middle, project, shortcut, module.residual)


def _unit(module: nn.Module, path: str, relu: bool) -> Unit | None:
    """A sequence of convolution, BatchNorm and, where `relu` asks for it, ReLU."""
    layers = list(module.children())
    right = isinstance(module, nn.Sequential) and len(layers) == 2 + relu
    return _pair(layers, 0, path) if right and all(type(layer) is nn.ReLU for layer in layers[2:]) else None


def _pair(layers: list[nn.Module], first: int, path: str) -> Unit | None:
    """The unit of two neighbouring layers."""
    conv, norm = layers[first : first + 2]
    if type(conv) is not nn.Conv2d or type(norm) is not nn.BatchNorm2d:
        return None
    usual = norm.affine and norm.track_running_stats and norm.momentum is not None
    if not usual or conv.bias is not None or conv.padding_mode != "zeros" or conv.dilation != (1, 1):
        return None
    inputs, outputs, stride = conv.in_channels, conv.out_channels, conv.stride[0]
    match (conv.kernel_size, conv.padding, conv.stride, conv.groups):
        case ((1, 1), (0, 0), (1, 1), 1):
            kind, columns = "pointwise", inputs
        case ((3, 3), (1, 1), (1, 1), 1):
            kind, columns = "dense", -(-9 * inputs // 16) * 16
        case ((3, 3), (1, 1), (1, 1) | (2, 2), groups) if groups == inputs == outputs:
            kind, columns = "depthwise", 9
        case _:
            return None
    names = f"{path}.{first}.weight", f"{path}.{first + 1}"
    assert norm.momentum is not None
    return Unit(kind, *names, columns, stride, norm.eps, norm.momentum)  # type: ignore[arg-type]
