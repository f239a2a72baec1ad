"""Models by name: sizes, keyed weights, and what a config may say."""

import random

import numpy as np
import pytest
import torch
from torch import nn

from fedvls import UsageError
from fedvls.models import build_network, complete_spec
from fedvls.models.init import build_with_seed
from fedvls.models.mlp import Mlp

CPU = torch.device("cpu")


def weights(model="mlp", shape=(1, 28, 28), classes=10, seed=0):
    return build_network(model, shape, classes, seed).start(CPU, torch.float32).params


# 784*200 + 200 + 200*200 + 200 + 200*C + C
@pytest.mark.parametrize(("classes", "parameters"), [(10, 199_210), (100, 217_300)])
def test_the_mlp_has_the_papers_size(classes, parameters):
    assert sum(p.numel() for p in weights(classes=classes).values()) == parameters


def test_width_and_depth_change_the_mlp():
    shapes = {k: tuple(p.shape) for k, p in weights({"name": "mlp", "width": 7, "depth": 1}, (2, 3), 4).items()}
    assert sorted(shapes.values()) == [(4,), (4, 7), (7,), (7, 6)]


def test_initial_weights_fill_pytorchs_bounds():
    # nn.Linear draws weight and bias uniformly from +-1/sqrt(inputs).
    for name, parameter in weights().items():
        inputs = 784 if name.startswith("body.1") else 200
        bound = inputs**-0.5
        assert float(parameter.abs().max()) <= bound
        if parameter.numel() > 1000:
            assert float(parameter.abs().max()) > 0.99 * bound
            # Uniform: variance bound^2 / 3, mean 0.
            assert float(parameter.var()) == pytest.approx(bound**2 / 3, rel=0.1)
            assert abs(float(parameter.mean())) < 0.05 * bound


def test_the_same_seed_gives_the_same_weights_and_another_seed_others():
    first, again, other = weights(seed=3), weights(seed=3), weights(seed=4)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first)


def test_layers_of_one_shape_differ():
    deep = weights({"name": "mlp", "width": 20, "depth": 3}, (20,), 20)
    matrices = [p for p in deep.values() if p.shape == (20, 20)]
    assert len(matrices) == 4
    assert len({tuple(m.flatten().tolist()) for m in matrices}) == 4


def test_weights_can_never_change_silently():
    # Frozen: rng.uniform(rng.key(0, "init", name)) scaled to the bound.
    first = weights({"name": "mlp", "width": 2, "depth": 1}, (2,), 2)["classifier.weight"]
    assert first.flatten().tolist() == pytest.approx([0.26543716, 0.51046938, 0.23328628, 0.26207957], abs=1e-7)


def test_building_a_model_touches_no_global_generator():
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    weights()
    assert states == (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())


def test_batch_norm_starts_as_the_identity_and_convolutions_within_their_bound():
    def build():
        return nn.Sequential(nn.Conv2d(3, 8, 5), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(8, 2))

    module = build_with_seed(build, seed=0)
    bound = (3 * 5 * 5) ** -0.5
    assert 0.95 * bound < float(module[0].weight.detach().abs().max()) <= bound
    assert module[1].weight.tolist() == [1] * 8
    assert module[1].running_var.tolist() == [1] * 8
    assert module[1].running_mean.tolist() == module[1].bias.tolist() == [0] * 8
    assert int(module[1].num_batches_tracked) == 0


def test_a_layer_without_a_keyed_start_is_refused_and_not_left_undefined():
    with pytest.raises(UsageError, match=r"no keyed initialisation for LSTM '0'; pass a built module instead"):
        build_with_seed(lambda: nn.Sequential(nn.LSTM(3, 4)), seed=0)


def test_a_module_keeps_the_weights_it_has():
    module = Mlp(6, (5,), 3)
    state = build_network(module, (6,), 3, seed=99).start(CPU, torch.float32)
    assert all(torch.equal(state.params[name], p) for name, p in module.named_parameters())


def test_a_spec_is_completed_with_defaults():
    assert complete_spec("mlp") == {"name": "mlp", "width": 200, "depth": 2}
    assert complete_spec({"name": "mlp", "depth": 3}) == {"name": "mlp", "width": 200, "depth": 3}


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("mpl", "unknown model 'mpl'; did you mean 'mlp'?"),
        ({"name": "mlp", "widht": 3}, "unknown value for model 'mlp': 'widht'; did you mean 'width'?"),
        ({"name": "mlp", "width": "wide"}, "model 'mlp': width = 'wide' must be a whole number"),
        ({"name": "mlp", "depth": 1.5}, "model 'mlp': depth = 1.5 must be a whole number"),
        ({"width": 3}, "model = {'width': 3} has no name; give one, e.g. {name: mlp}"),
    ],
)
def test_a_model_that_does_not_exist_is_named(model, expected):
    with pytest.raises(UsageError) as caught:
        build_network(model, (4,), 3, seed=0)
    assert str(caught.value) == expected
