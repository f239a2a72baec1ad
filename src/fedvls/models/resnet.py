"""Residual networks of basic blocks: ResNet-18, ResNet-32, its small form ResNet-8, and the ResNet-10 of FPL.

Parameters have torchvision's names, so weights of its ResNet-18 fit where the number of classes agrees.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F

from .init import WeightRule
from .layers import GlobalAverage, Images, image_shape, normalised
from .registry import MODELS

Stem = Literal["torchvision", "cifar"]
Shortcut = Literal["projection", "zero-pad"]


class ZeroPad(nn.Module):
    """Every second pixel, and new channels of zeros on both sides (option A of He et al. 2016): no parameters."""

    def __init__(self, new_channels: int, stride: int) -> None:
        super().__init__()
        self.before, self.stride = new_channels // 2, stride
        self.after = new_channels - self.before

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x[..., :: self.stride, :: self.stride], (0, 0, 0, 0, self.before, self.after))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions, added to the input; the input is brought to the same size where they change it."""

    def __init__(self, inputs: int, outputs: int, stride: int, shortcut: Shortcut) -> None:
        super().__init__()
        self.conv1, self.bn1 = normalised(inputs, outputs, 3, stride)
        self.conv2, self.bn2 = normalised(outputs, outputs, 3)
        self.downsample: nn.Module = nn.Identity()
        if (stride, inputs) != (1, outputs):
            projection = nn.Sequential(*normalised(inputs, outputs, 1, stride))
            self.downsample = projection if shortcut == "projection" else ZeroPad(outputs - inputs, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.downsample(x))


class ResNet(nn.Sequential):
    """Stem, stages of basic blocks (all but the first halve height and width), global average, Linear classifier."""

    def __init__(
        self, channels: int, classes: int, widths: tuple[int, ...], blocks: int, stem: Stem, shortcut: Shortcut
    ) -> None:
        large = stem == "torchvision"
        parts: OrderedDict[str, nn.Module] = OrderedDict(images=Images())
        parts["conv1"], parts["bn1"] = normalised(channels, widths[0], *((7, 2) if large else (3, 1)))
        parts["relu"] = nn.ReLU()
        if large:
            parts["maxpool"] = nn.MaxPool2d(3, 2, 1)
        inputs = widths[0]
        for number, width in enumerate(widths, 1):
            first = BasicBlock(inputs, width, 1 if number == 1 else 2, shortcut)
            others = [BasicBlock(width, width, 1, shortcut) for _ in range(blocks - 1)]
            parts[f"layer{number}"] = nn.Sequential(first, *others)
            inputs = width
        parts["average"], parts["fc"] = GlobalAverage(), nn.Linear(inputs, classes)
        super().__init__(parts)


class FanInResNet(ResNet):
    """A ResNet whose convolutions and classifier start normal with variance 2 / fan_in (He et al. 2015)."""

    weight_rule: WeightRule = "kaiming-normal"


class FanOutResNet(ResNet):
    """A ResNet whose convolutions start normal with variance 2 / fan_out, as torchvision's do."""

    weight_rule: WeightRule = "kaiming-normal-fan-out"


@MODELS.register("resnet18")
def resnet18(sample_shape: tuple[int, ...], classes: int, stem: Stem = "torchvision") -> nn.Module:
    """ResNet-18; stem torchvision: 7x7 stride 2 and max-pooling (11,181,642 parameters for 10 classes), cifar: 3x3."""
    channels, _, _ = image_shape("resnet18", sample_shape)
    kind = FanOutResNet if stem == "torchvision" else ResNet
    return kind(channels, classes, (64, 128, 256, 512), 2, stem, "projection")


@MODELS.register("resnet32")
def resnet32(sample_shape: tuple[int, ...], classes: int) -> nn.Module:
    """ResNet-32 for CIFAR, with shortcuts that have no parameters (464,154 parameters for 10 classes)."""
    channels, _, _ = image_shape("resnet32", sample_shape)
    return FanInResNet(channels, classes, (16, 32, 64), 5, "cifar", "zero-pad")


@MODELS.register("resnet8")
def resnet8(sample_shape: tuple[int, ...], classes: int) -> nn.Module:
    """ResNet-32 with one block per stage: small enough for a CPU (75,290 parameters for 10 classes)."""
    channels, _, _ = image_shape("resnet8", sample_shape)
    return FanInResNet(channels, classes, (16, 32, 64), 1, "cifar", "zero-pad")


@MODELS.register("resnet10")
def resnet10(sample_shape: tuple[int, ...], classes: int) -> nn.Module:
    """ResNet-10 with a 3x3 stem, the network of FPL (4,903,242 parameters for 10 classes)."""
    channels, _, _ = image_shape("resnet10", sample_shape)
    return ResNet(channels, classes, (64, 128, 256, 512), 1, "cifar", "projection")
