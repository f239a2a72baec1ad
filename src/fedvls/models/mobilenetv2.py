"""MobileNetV2 for small images: the paper's network for CIFAR and TinyImageNet."""

from __future__ import annotations

from collections import OrderedDict

from torch import Tensor, nn

from .layers import GlobalAverage, Images, image_shape, normalised
from .registry import MODELS

# Expansion, output channels, blocks, stride of the first block. For 224x224 images the second stage and the stem
# would also have stride 2; on 32x32 ones that would leave a single pixel.
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 1),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
STEM, FEATURES = 32, 1280


class InvertedResidual(nn.Module):
    """Widen (1x1), filter each channel by itself (3x3), narrow (1x1, no activation); added to its input if stride is 1.

    Where stride is 1 and the number of channels changes, the input passes a 1x1 convolution and BatchNorm first.
    """

    def __init__(self, inputs: int, outputs: int, expansion: int, stride: int) -> None:
        super().__init__()
        inner = expansion * inputs
        self.body = nn.Sequential(
            *normalised(inputs, inner, 1),
            nn.ReLU(),
            *normalised(inner, inner, 3, stride, groups=inner),
            nn.ReLU(),
            *normalised(inner, outputs, 1),
        )
        self.residual = stride == 1
        self.shortcut = nn.Sequential(*(normalised(inputs, outputs, 1) if self.residual and inputs != outputs else ()))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x)
        return y + self.shortcut(x) if self.residual else y


class MobileNetV2(nn.Sequential):
    """Stem, stages of inverted residuals, 1x1 convolution to 1280 channels, global average, Linear classifier."""

    def __init__(self, channels: int, classes: int) -> None:
        blocks: list[nn.Module] = []
        width = STEM
        for expansion, outputs, repeats, first_stride in STAGES:
            for stride in (first_stride, *(1,) * (repeats - 1)):
                blocks.append(InvertedResidual(width, outputs, expansion, stride))
                width = outputs
        super().__init__(
            OrderedDict(
                images=Images(),
                stem=nn.Sequential(*normalised(channels, STEM, 3), nn.ReLU()),
                blocks=nn.Sequential(*blocks),
                top=nn.Sequential(*normalised(width, FEATURES, 1), nn.ReLU()),
                average=GlobalAverage(),
                classifier=nn.Linear(FEATURES, classes),
            )
        )


@MODELS.register("mobilenetv2")
def mobilenetv2(sample_shape: tuple[int, ...], classes: int) -> nn.Module:
    """MobileNetV2 with the strides used for CIFAR and with ReLU (2,296,922 parameters for 10 classes)."""
    channels, _, _ = image_shape("mobilenetv2", sample_shape)
    return MobileNetV2(channels, classes)
