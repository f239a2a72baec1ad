"""What the networks compute: sizes of maps and features, shortcuts, pooling and texts."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fedvls.models.layers import GlobalAverage
from fedvls.models.mobilenetv2 import InvertedResidual, MobileNetV2
from fedvls.models.resnet import BasicBlock, ZeroPad
from fedvls.models.text import FastText, TextCnn

CIFAR_STEM = {"name": "resnet18", "stem": "cifar"}
# Model, sample, width of the features, height and width of the last map (None: no BatchNorm and so no map to look at).
CASES = [
    ("mobilenetv2", (3, 32, 32), 1280, 4),
    ("mobilenetv2", (3, 64, 64), 1280, 8),
    ("mobilenetv2", (1, 28, 28), 1280, 4),
    ("resnet18", (3, 32, 32), 512, 1),
    ("resnet18", (3, 64, 64), 512, 2),
    (CIFAR_STEM, (3, 32, 32), 512, 4),
    (CIFAR_STEM, (3, 64, 64), 512, 8),
    ("resnet32", (3, 32, 32), 64, 8),
    ("resnet32", (3, 64, 64), 64, 16),
    ("resnet32", (1, 28, 28), 64, 7),
    ("resnet8", (3, 32, 32), 64, 8),
    ("resnet8", (1, 28, 28), 64, 7),
    ("resnet10", (3, 32, 32), 512, 4),
    ("cnn", (1, 28, 28), 512, None),
    ("cnn", (3, 32, 32), 512, None),
    ("cnn", (1, 8, 8), 512, None),
    ("mlp", (1, 28, 28), 200, None),
    ("fasttext", (200,), 32, None),
    ("textcnn", (200,), 300, None),
]


def sizes_of_maps(module, x, kinds):
    """Height and width of the outputs of all submodules of these types, in order."""
    seen = []
    hooks = [
        m.register_forward_hook(lambda _, __, y: seen.append(tuple(y.shape[-2:])))
        for m in module.modules()
        if isinstance(m, kinds)
    ]
    with torch.no_grad():
        module(x)
    for hook in hooks:
        hook.remove()
    return seen


@pytest.mark.parametrize(("model", "shape", "width", "last"), CASES)
def test_maps_features_and_logits_have_the_stated_sizes(model, shape, width, last, built, samples):
    network, state = built(model, shape, vocabulary=50)
    with torch.no_grad():
        logits, features = network.logits_and_features(state, samples(shape, 2), train=False)
    assert logits.shape == (2, 10)
    assert features.shape == (2, width)
    assert logits.isfinite().all()
    head = network.classifier
    expected = features @ state.params[f"{head}.weight"].T + state.params[f"{head}.bias"]
    torch.testing.assert_close(logits, expected)
    maps = sizes_of_maps(network.module(state), samples(shape, 1), nn.BatchNorm2d)
    assert maps[-1:] == ([(last, last)] if last else [])


def test_mobilenet_halves_cifar_images_three_times(built, samples):
    network, state = built("mobilenetv2", (3, 32, 32))
    sizes = sizes_of_maps(network.module(state), samples((3, 32, 32), 1), InvertedResidual)
    # Blocks per stage 1, 2, 3, 4, 3, 3, 1 with first strides 1, 1, 2, 2, 1, 2, 1.
    assert [height for height, _ in sizes] == [32] * 3 + [16] * 3 + [8] * 7 + [4] * 4


def test_mobilenet_has_relu_and_not_relu6():
    module = MobileNetV2(3, 10)
    kinds = {type(m) for m in module.modules()}
    assert nn.ReLU in kinds
    assert nn.ReLU6 not in kinds


def test_mobilenet_filters_each_channel_by_itself():
    wide = [m for m in MobileNetV2(3, 10).blocks.modules() if isinstance(m, nn.Conv2d) and m.kernel_size == (3, 3)]
    assert len(wide) == 17
    assert all(m.groups == m.in_channels == m.out_channels for m in wide)


def silenced(block, last):
    """The block in eval mode with its residual branch at 0."""
    nn.init.zeros_(last.weight)
    return block.eval()


def test_an_inverted_residual_of_stride_1_adds_its_input_as_it_is(samples):
    block = InvertedResidual(8, 8, 6, stride=1)
    x = samples((8, 6, 6))
    assert torch.equal(silenced(block, block.body[-1])(x), x)  # negative values too: no activation after the sum


def test_an_inverted_residual_that_changes_channels_projects_its_input(samples):
    block = InvertedResidual(8, 12, 6, stride=1)
    x = samples((8, 6, 6))
    projected = block.shortcut.eval()(x)
    assert [type(m) for m in block.shortcut] == [nn.Conv2d, nn.BatchNorm2d]
    assert torch.equal(silenced(block, block.body[-1])(x), projected)


def test_an_inverted_residual_of_stride_2_adds_nothing(samples):
    block = InvertedResidual(8, 8, 6, stride=2)
    y = silenced(block, block.body[-1])(samples((8, 6, 6)))
    assert y.shape == (4, 8, 3, 3)
    assert not y.any()


def test_a_basic_block_adds_its_input_and_then_activates(samples):
    block = BasicBlock(8, 8, 1, "projection")
    x = samples((8, 6, 6))
    assert torch.equal(silenced(block, block.bn2)(x), x.relu())


def test_a_basic_block_that_shrinks_projects_its_input_or_pads_it(samples):
    x = samples((8, 5, 5))
    block = BasicBlock(8, 16, 2, "projection")
    projected = block.downsample.eval()(x)
    assert torch.equal(silenced(block, block.bn2)(x), projected.relu())
    block = BasicBlock(8, 16, 2, "zero-pad")
    assert torch.equal(silenced(block, block.bn2)(x), ZeroPad(8, 2)(x).relu())


def test_a_padded_shortcut_keeps_every_second_pixel_between_zeros():
    x = torch.arange(2 * 9.0).reshape(1, 2, 3, 3) + 1
    y = ZeroPad(2, 2)(x)
    assert y.shape == (1, 4, 2, 2)
    assert y[0, 1].tolist() == [[1, 3], [7, 9]]
    assert y[0, 2].tolist() == [[10, 12], [16, 18]]
    assert not y[0, 0].any()
    assert not y[0, 3].any()
    assert not list(ZeroPad(2, 2).parameters())


def test_resnet18_has_the_names_of_torchvision(built):
    _, state = built("resnet18", (3, 32, 32))
    names = state.tensors().keys()
    block = {f"{part}.weight" for part in ("conv1", "bn1", "conv2", "bn2")}
    assert {f"layer{stage}.{b}.{p}" for stage in (1, 2, 3, 4) for b in (0, 1) for p in block} <= names
    assert {"conv1.weight", "bn1.running_mean", "layer4.0.downsample.1.num_batches_tracked", "fc.bias"} <= names
    assert {"layer1.0.downsample.0.weight", "conv1.bias"}.isdisjoint(names)
    # 20 BatchNorm layers of 5 tensors, as many convolutions, weight and bias of the classifier.
    assert len(names) == 122
    assert state.params["conv1.weight"].shape == (64, 3, 7, 7)


@pytest.mark.parametrize("model", ["mobilenetv2", "resnet18", "resnet32", "resnet8", "resnet10", "cnn"])
def test_images_without_a_channel_axis_are_grey_images(model, built, samples):
    x = samples((28, 28), 2)
    with_axis, without = built(model, (1, 28, 28)), built(model, (28, 28))
    a = with_axis[0].logits(with_axis[1], x.unsqueeze(1), train=False)
    b = without[0].logits(without[1], x, train=False)
    assert torch.equal(a, b)


def test_any_number_of_channels_is_taken(built, samples):
    network, state = built("resnet32", (5, 16, 16))
    assert network.logits(state, samples((5, 16, 16), 2), train=False).shape == (2, 10)


def test_the_global_average_is_over_height_and_width():
    x = torch.tensor([[[[1.0, 2], [3, 6]], [[0, 0], [0, 4]]]])
    assert GlobalAverage()(x).tolist() == [[3, 1]]


def test_cnn_rounds_odd_sizes_down_when_it_pools(built, samples):
    network, state = built("cnn", (1, 11, 7))
    assert state.params["hidden.weight"].shape == (512, 64 * 2 * 1)
    assert network.logits(state, samples((1, 11, 7), 2), train=False).shape == (2, 10)


def test_fasttext_averages_over_padding_too():
    # Two words and two of padding: the mean is a quarter of the words' sum, and both layers are affine in it.
    module = FastText(9, 3, 2)
    words, vectors = torch.tensor([[5, 7, 0, 0]]), module.embedding.weight
    assert not vectors[0].any()
    expected = module.classifier(module.hidden((vectors[5] + vectors[7]) / 4))
    torch.testing.assert_close(module(words)[0], expected)


def test_textcnn_is_the_strongest_answer_of_every_filter():
    module = TextCnn(12, 3, 2, 0.0, 4)
    tokens = torch.tensor([[4, 2, 9, 11, 1, 0]])
    vectors = module.embedding(tokens)[0]
    features = []
    for convolution in module.convolutions:
        kernel = convolution.weight.shape[-1]
        for weight, bias in zip(convolution.weight, convolution.bias, strict=True):
            answers = [(vectors[i : i + kernel].T * weight).sum() + bias for i in range(6 - kernel + 1)]
            features.append(max(0.0, *(float(a.detach()) for a in answers)))
    assert [c.weight.shape[-1] for c in module.convolutions] == [3, 4, 5]
    torch.testing.assert_close(module(tokens)[0], module.classifier(torch.tensor(features)))


def test_textcnn_drops_nothing_unless_asked():
    assert not any(isinstance(m, nn.Dropout) for m in TextCnn(12, 3, 2, 0.0, 4).modules())
    assert [m.p for m in TextCnn(12, 3, 2, 0.5, 4).modules() if isinstance(m, nn.Dropout)] == [0.5]


@pytest.mark.parametrize("kind", [torch.uint8, torch.int16, torch.int32, torch.int64])
def test_tokens_may_be_of_any_whole_type(kind, built, samples):
    network, state = built("fasttext", (20,), vocabulary=50)
    x = samples((20,), 3)
    assert torch.equal(network.logits(state, x.to(kind), train=False), network.logits(state, x, train=False))
