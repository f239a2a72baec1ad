"""Parameters, BatchNorm layers and features of every model, and that the documentation states them."""

from __future__ import annotations

import re

import pytest
import torch
from support import ROOT
from torch import nn

from fedvls import MODELS
from fedvls.models import build_network

CIFAR, MNIST, TEXT = (3, 32, 32), (1, 28, 28), (200,)
NORMS = nn.modules.batchnorm._BatchNorm


def on_paper(name, shape, classes, **values):
    """The module without storage: enough to count."""
    with torch.device("meta"):
        return MODELS.build(name, sample_shape=shape, classes=classes, **values)


def parameters(module):
    return sum(p.numel() for p in module.parameters())


def norms(module):
    return sum(isinstance(m, NORMS) for m in module.modules())


# Published: the authors' programs and, for torchvision's ResNet-18, its 11,689,512 at 1000 classes, where a class has
# 513 parameters. A further class of the others has 1281, 65, 513, 513, 33 and 301: their features and a bias.
@pytest.mark.parametrize(
    ("name", "values", "shape", "classes", "expected"),
    [
        ("mobilenetv2", {}, CIFAR, 10, 2_296_922),
        ("mobilenetv2", {}, CIFAR, 100, 2_412_212),
        ("mobilenetv2", {}, (3, 64, 64), 200, 2_540_312),
        ("resnet18", {}, CIFAR, 10, 11_181_642),
        ("resnet18", {}, CIFAR, 100, 11_227_812),
        ("resnet18", {}, (3, 64, 64), 200, 11_279_112),
        ("resnet18", {}, (3, 224, 224), 1000, 11_689_512),
        ("resnet18", {"stem": "cifar"}, CIFAR, 10, 11_173_962),
        ("resnet18", {"stem": "cifar"}, CIFAR, 100, 11_220_132),
        ("resnet18", {"stem": "cifar"}, (3, 64, 64), 200, 11_271_432),
        ("resnet32", {}, CIFAR, 10, 464_154),
        ("resnet32", {}, CIFAR, 100, 470_004),
        ("resnet32", {}, (3, 64, 64), 200, 476_504),
        ("resnet8", {}, CIFAR, 10, 75_290),
        ("resnet8", {}, CIFAR, 100, 81_140),
        ("resnet10", {}, CIFAR, 10, 4_903_242),
        ("mlp", {}, MNIST, 10, 199_210),
        ("mlp", {}, MNIST, 100, 217_300),
        ("fasttext", {}, TEXT, 4, 3_157_508),
        ("textcnn", {}, TEXT, 4, 3_196_224),
        ("cnn", {}, MNIST, 10, 1_663_370),  # McMahan et al. 2017 print this number
        # 3*25*32+32 + 32*25*64+64 + 64*8*8*512+512 + 512*10+10
        ("cnn", {}, CIFAR, 10, 2_156_490),
        # 1*25*32+32 + 32*25*64+64 + 64*2*2*512+512 + 512*10+10
        ("cnn", {}, (1, 8, 8), 10, 188_810),
    ],
)
def test_a_model_has_its_published_number_of_parameters(name, values, shape, classes, expected):
    assert parameters(on_paper(name, shape, classes, **values)) == expected


# MobileNetV2: stem, 17 blocks of 3, 4 shortcuts, top. ResNets: stem, 2 per block, 3 projections where there are any.
@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("mobilenetv2", {}, 1 + 17 * 3 + 4 + 1),
        ("resnet18", {}, 1 + 8 * 2 + 3),
        ("resnet18", {"stem": "cifar"}, 1 + 8 * 2 + 3),
        ("resnet32", {}, 1 + 15 * 2),
        ("resnet8", {}, 1 + 3 * 2),
        ("resnet10", {}, 1 + 4 * 2 + 3),
        ("cnn", {}, 0),
    ],
)
def test_a_model_has_its_number_of_batch_norm_layers(name, values, expected):
    assert norms(on_paper(name, CIFAR, 10, **values)) == expected


def test_grey_images_cost_only_the_first_convolution():
    # Two channels fewer: 2 * 9 * 32 weights of MobileNetV2's stem, 2 * 49 * 64 of ResNet-18's.
    for name, fewer in (("mobilenetv2", 2 * 9 * 32), ("resnet18", 2 * 49 * 64)):
        colour, grey = (parameters(on_paper(name, (channels, 32, 32), 10)) for channels in (3, 1))
        assert colour - grey == fewer


def test_the_vocabulary_of_the_data_sizes_the_embedding():
    for name in ("fasttext", "textcnn"):
        network = build_network(name, (20,), 4, 0, vocabulary=50)
        weights = network.start(torch.device("cpu"), torch.float32).params
        assert weights["embedding.weight"].shape == (50, 32)


def test_every_model_is_in_the_documentation_with_its_true_numbers():
    """Columns: name, what, parameters at 10 and at 100 classes, BatchNorm layers, features."""
    row = r"^\| `(\w+)`(?: `(\w+)=(\w+)`)? \| [^|]+ \| ([\d,]+) \| ([\d,]+) \| (\d+) \| (\d+) \|"
    text = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    rows = re.findall(row, text, re.MULTILINE)
    for name, key, value, ten, hundred, batch_norms, features in rows:
        shape = MNIST if name in ("mlp", "cnn") else TEXT if "text" in name else CIFAR
        values = {key: value} if key else {}
        module = on_paper(name, shape, 10, **values)
        assert f"{parameters(module):,}" == ten, name
        assert f"{parameters(on_paper(name, shape, 100, **values)):,}" == hundred, name
        assert norms(module) == int(batch_norms), name
        assert list(module.modules())[-1].in_features == int(features), name
    built_in = {entry.name for entry in MODELS if entry.build.__module__.startswith("fedvls.")}
    assert {name for name, *_ in rows} == built_in
