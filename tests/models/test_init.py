"""Initial weights: PyTorch's distributions, drawn from the seed and nothing else."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import torch
from torch import nn

from fedvls import MODELS, UsageError, rng
from fedvls.models import build_network
from fedvls.models.init import build_with_seed

SHAPES = {"fasttext": (20,), "textcnn": (20,), "cnn": (1, 8, 8), "mlp": (1, 8, 8)}
NAMES = ["mlp", "cnn", "mobilenetv2", "resnet10", "resnet18", "resnet32", "resnet8", "fasttext", "textcnn"]
ALL_UNIFORM = ["cnn", "mobilenetv2", "resnet10"]


def module_of(built, name):
    network, state = built(name, SHAPES.get(name, (3, 16, 16)), vocabulary=3000)
    return network.module(state)


def layers(module, *kinds):
    return [(name, m) for name, m in module.named_modules() if isinstance(m, kinds)]


def test_every_registered_model_is_tested_here():
    assert {entry.name for entry in MODELS if entry.build.__module__.startswith("fedvls.")} == set(NAMES)


def assert_uniform(tensor, bound, name):
    assert float(tensor.abs().max()) <= bound, name
    n = tensor.numel()
    if n >= 1000:
        # Variance bound^2 / 3 and mean 0, each within six deviations of n draws; kurtosis 9/5.
        assert abs(float(tensor.mean())) < 6 * bound / (3 * n) ** 0.5, name
        assert float(tensor.var()) == pytest.approx(bound**2 / 3, abs=6 * bound**2 * (4 / 45 / n) ** 0.5), name


def assert_normal(tensor, deviation, name):
    n = tensor.numel()
    assert abs(float(tensor.mean())) < 6 * deviation / n**0.5, name
    assert float(tensor.var()) == pytest.approx(deviation**2, abs=6 * deviation**2 * (2 / n) ** 0.5), name
    # 68.27 % of a normal lie within a deviation, 57.7 % of a uniform one of the same variance.
    within = float((tensor.abs() < deviation).double().mean())
    assert within == pytest.approx(0.6827, abs=6 * (0.217 / n) ** 0.5), name


@pytest.mark.parametrize("name", ALL_UNIFORM)
def test_convolutions_and_linear_layers_are_uniform_within_pytorchs_bound(name, built):
    for where, layer in layers(module_of(built, name), nn.Linear, nn.Conv2d):
        groups = getattr(layer, "groups", 1)
        inputs = layer.in_features if isinstance(layer, nn.Linear) else layer.in_channels // groups
        bound = (inputs * math.prod(getattr(layer, "kernel_size", ()))) ** -0.5
        for parameter in layer.parameters():
            assert_uniform(parameter.detach(), bound, where)


def test_the_bounds_are_those_of_pytorch():
    """Its own layers of the kinds that occur, grouped ones too, fill the bound that ours are held to."""
    with torch.random.fork_rng():
        torch.default_generator.manual_seed(0)
        own = [
            nn.Linear(40, 5000),
            nn.Conv1d(8, 900, 5),
            nn.Conv2d(8, 900, 3),
            nn.Conv2d(900, 900, 3, groups=900),
            nn.Conv2d(64, 900, 1, groups=2),
        ]
    for layer, fan_in in zip(own, (40, 40, 72, 9, 32), strict=True):
        for parameter in layer.parameters():
            assert 0.98 * fan_in**-0.5 < float(parameter.detach().abs().max()) <= fan_in**-0.5


def test_a_text_models_convolutions_are_uniform_and_its_vectors_normal(built):
    module = module_of(built, "textcnn")
    for where, layer in layers(module, nn.Conv1d, nn.Linear):
        bound = layer.weight[0].numel() ** -0.5
        for parameter in layer.parameters():
            assert_uniform(parameter.detach(), bound, where)
    for name in ("fasttext", "textcnn"):
        vectors = module_of(built, name).embedding.weight.detach()
        assert not vectors[0].any()
        assert_normal(vectors[1:], 1.0, name)


@pytest.mark.parametrize(("name", "depth"), [("resnet32", 32), ("resnet8", 8)])
def test_resnets_for_cifar_are_kaiming_normal_but_for_their_biases(name, depth, built):
    module = module_of(built, name)
    found = layers(module, nn.Conv2d, nn.Linear)
    assert len(found) == depth
    for where, layer in found:
        assert_normal(layer.weight.detach(), (2 / layer.weight[0].numel()) ** 0.5, where)
    assert_uniform(module.fc.bias.detach(), 64**-0.5, "fc.bias")
    assert module.fc.bias.any()


@pytest.mark.parametrize("name", ["mobilenetv2", "resnet10", "resnet18", "resnet32", "resnet8"])
def test_batch_norm_starts_as_the_identity(name, built):
    for where, layer in layers(module_of(built, name), nn.BatchNorm2d):
        for one, zero in ((layer.weight, layer.bias), (layer.running_var, layer.running_mean)):
            assert (one == 1).all(), where
            assert (zero == 0).all(), where
        assert int(layer.num_batches_tracked) == 0, where


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_a_function_of_the_seed(name, built):
    shape = SHAPES.get(name, (3, 16, 16))
    first = built(name, shape, vocabulary=3000)[0]
    again = build_network(name, shape, 10, 0, vocabulary=3000)
    assert again.fingerprint == first.fingerprint
    other = build_network(name, shape, 10, 1, vocabulary=3000)
    cpu = torch.device("cpu")
    a, b = first.start(cpu, torch.float32).params, other.start(cpu, torch.float32).params
    drawn = [key for key, p in a.items() if p.unique().numel() > 1]
    assert len(drawn) >= 2
    assert not any(torch.equal(a[key], b[key]) for key in drawn)


@pytest.mark.parametrize("name", NAMES)
def test_building_touches_no_global_generator(name):
    def states():
        return random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()

    before = states()
    build_network(name, SHAPES.get(name, (3, 16, 16)), 10, 0, vocabulary=50)
    assert states() == before


# Frozen: uniform weights need only exact arithmetic, so they have the same bits everywhere.
@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("mlp", (1, 8, 8), "8e3c2bc34fb759c7"),
        ("cnn", (1, 8, 8), "e150f61a453515a4"),
        ("mobilenetv2", (3, 32, 32), "441265daa1720d6f"),
        ("resnet10", (3, 32, 32), "3f75f4fc9dfee624"),
    ],
)
def test_uniform_weights_can_never_change_silently(name, shape, expected, built):
    assert built(name, shape)[0].fingerprint == expected


def test_normal_weights_can_never_change_silently(built):
    vectors = built("fasttext", (20,), 4, vocabulary=50)[1].params["embedding.weight"]
    kaiming = built("resnet32", (3, 32, 32))[1].params["conv1.weight"]
    assert vectors[1, :3].tolist() == pytest.approx([0.92238921, 0.81045347, -2.6255331], rel=1e-6)
    assert kaiming[0, 0, 0].tolist() == pytest.approx([0.2242447, -0.44118536, -0.17600833], rel=1e-6)


def test_layers_that_draw_nothing_and_layers_of_more_axes_are_known():
    module = build_with_seed(lambda: nn.Sequential(nn.Conv3d(2, 3, 2), nn.GroupNorm(1, 3), nn.LayerNorm(4)), 0)
    assert 0 < float(module[0].weight.detach().abs().max()) <= 16**-0.5
    assert module[1].weight.tolist() == [1] * 3
    assert module[2].bias.tolist() == [0] * 4


def test_an_embedding_without_padding_has_no_zero_row():
    weight = build_with_seed(lambda: nn.Embedding(20, 4), 0).weight.detach()
    assert weight.any(-1).all()


def test_any_module_can_ask_for_kaiming_normal_weights():
    class Own(nn.Linear):
        weight_rule = "kaiming-normal"

    assert_normal(build_with_seed(lambda: Own(50, 200), 0).weight.detach(), (2 / 50) ** 0.5, "own")


def test_an_unknown_weight_rule_is_named():
    class Own(nn.Linear):
        weight_rule = "xavier"

    with pytest.raises(UsageError) as caught:
        build_with_seed(lambda: Own(3, 2), 0)
    known = "'default', 'kaiming-normal', 'kaiming-normal-fan-out'"
    assert str(caught.value) == f"weight_rule = 'xavier' is not one of {known}"


def test_normal_numbers_have_the_moments_of_a_standard_normal():
    values = rng.normal(rng.key(0, "normal"), (100, 1000))
    assert values.shape == (100, 1000)
    assert values.dtype == np.float64
    # Moments 0, 1, 0, 3 of 10^5 draws; their deviations are those of z, z^2, z^3, z^4: 1, sqrt 2, sqrt 15, sqrt 96.
    for power, moment, deviation in ((1, 0, 1), (2, 1, 2**0.5), (3, 0, 15**0.5), (4, 3, 96**0.5)):
        assert np.mean(values**power) == pytest.approx(moment, abs=5 * deviation / 1e5**0.5)
    first, second = values.reshape(2, -1)  # the two numbers of each pair
    assert abs(np.mean(first * second)) < 5 / 5e4**0.5
    assert abs(np.mean(first**2 * second**2) - 1) < 5 * 8**0.5 / 5e4**0.5


def test_normal_numbers_can_never_change_silently():
    u, v = rng.uniform(rng.key(0, "init", "w"), (2, 2))
    by_hand = [math.sqrt(-2 * math.log(1 - a)) * math.cos(2 * math.pi * b) for a, b in zip(u, v, strict=True)]
    by_hand.append(math.sqrt(-2 * math.log(1 - u[0])) * math.sin(2 * math.pi * v[0]))
    drawn = rng.normal(rng.key(0, "init", "w"), (3,)).tolist()
    assert drawn == pytest.approx(by_hand, rel=1e-12)
    assert drawn == pytest.approx([0.8072396528270194, -1.2961326884822688, 0.5218924028503314], rel=1e-12)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 3), (3, 3), (0, 5)])
def test_normal_numbers_come_in_any_shape(shape):
    assert rng.normal(rng.key(0, "normal"), shape).shape == shape


@pytest.mark.parametrize("word", [0, 2**64 - 1])
def test_normal_numbers_are_finite_at_both_ends_of_the_words(word):
    class Constant:
        def random_raw(self, n):
            return np.full(n, word, dtype=np.uint64)

    values = rng.normal(Constant(), (4,))
    # u = 1 - 2^-53 at most, so no number is beyond sqrt(2 * 53 ln 2) = 8.57.
    assert np.isfinite(values).all()
    assert np.abs(values).max() < 8.58


def test_resnet18_starts_its_convolutions_as_torchvision_does(built):
    """Normal with variance 2 / fan_out: 64 channels of 3x3 give 2/576, whose root is 0.0589."""
    params = built("resnet18", (3, 32, 32))[1].params
    assert float(params["layer1.0.conv1.weight"].detach().std()) == pytest.approx((2 / 576) ** 0.5, rel=0.02)
    assert float(params["fc.weight"].detach().abs().max()) <= 512**-0.5
