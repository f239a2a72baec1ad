"""The two-convolution network of federated-learning benchmarks (McMahan et al. 2017)."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from .layers import Images, check_at_least, image_shape
from .registry import MODELS


class Cnn(nn.Sequential):
    """Two blocks of 5x5 convolution, ReLU and 2x2 max-pooling, a hidden Linear layer with ReLU, Linear classifier."""

    def __init__(self, image: tuple[int, int, int], channels: int, hidden: int, classes: int) -> None:
        inputs, height, width = image
        super().__init__(
            OrderedDict(
                images=Images(),
                conv1=nn.Conv2d(inputs, channels, 5, padding=2),
                relu1=nn.ReLU(),
                pool1=nn.MaxPool2d(2),
                conv2=nn.Conv2d(channels, 2 * channels, 5, padding=2),
                relu2=nn.ReLU(),
                pool2=nn.MaxPool2d(2),
                flatten=nn.Flatten(),
                hidden=nn.Linear(2 * channels * (height // 4) * (width // 4), hidden),
                relu3=nn.ReLU(),
                classifier=nn.Linear(hidden, classes),
            )
        )


@MODELS.register("cnn")
def cnn(sample_shape: tuple[int, ...], classes: int, channels: int = 32, hidden: int = 512) -> nn.Module:
    """Two 5x5 convolutions of 32 and 64 channels and a hidden layer of 512 (1,663,370 parameters on MNIST)."""
    check_at_least("cnn", 1, channels=channels, hidden=hidden)
    return Cnn(image_shape("cnn", sample_shape, least=4), channels, hidden, classes)
