"""Dropout with a key: PyTorch's layers in all but where the mask comes from."""

from __future__ import annotations

import copy

import pytest
import torch
from support import dropout_net
from torch import nn
from torch.func import vmap

from fedvls.models.dropout import KEYED, KeyedDropout, keyed, with_keys
from fedvls.models.network import Network

KEY = torch.tensor([123456789, -987654321], dtype=torch.int32)
SHAPES = {nn.Dropout: (6, 5), nn.Dropout1d: (6, 5, 4), nn.Dropout2d: (6, 5, 4, 4), nn.Dropout3d: (6, 5, 2, 3, 4)}


def dropped(layer, x, key=KEY):
    with keyed(key):
        return with_keys(nn.Sequential(copy.deepcopy(layer)))(x)


def test_masks_can_never_change_silently():
    # Frozen: a run of an older version can only be repeated while this stands.
    kept = dropped(nn.Dropout(0.5), torch.ones(4, 8)).bool().int().tolist()
    assert ["".join(map(str, row)) for row in kept] == ["00100011", "00000100", "01100011", "00110010"]


@pytest.mark.parametrize("p", [0.1, 0.25, 0.5, 0.9])
def test_a_share_p_is_dropped_and_the_rest_scaled_up(p):
    """10^6 draws; five deviations of a binomial share are 5 sqrt(p (1 - p) / 10^6)."""
    result = dropped(nn.Dropout(p), torch.ones(1000, 1000, dtype=torch.float64))
    assert set(result.unique().tolist()) == {0.0, 1 / (1 - p)}
    assert float((result == 0).double().mean()) == pytest.approx(p, abs=5 * (p * (1 - p) / 1e6) ** 0.5)


@pytest.mark.parametrize("kind", [nn.Dropout1d, nn.Dropout2d, nn.Dropout3d])
def test_channels_are_dropped_as_a_whole(kind):
    result = dropped(kind(0.4), torch.ones(50, 40, *SHAPES[kind][2:])).flatten(2)
    assert torch.equal(result, result[..., :1].expand_as(result))
    assert float((result[..., 0] == 0).double().mean()) == pytest.approx(0.4, abs=5 * (0.24 / 2000) ** 0.5)


@pytest.mark.parametrize(("kind", "shape"), [(nn.Dropout1d, (400, 7)), (nn.Dropout3d, (400, 2, 3, 4))])
def test_samples_without_a_batch_axis_are_taken_as_pytorch_takes_them(kind, shape):
    """With one axis fewer, PyTorch's layers take the first one for channels."""
    for result in (kind(0.5)(torch.ones(shape)), dropped(kind(0.5), torch.ones(shape))):
        rows = result.flatten(1)
        assert torch.equal(rows, rows[:, :1].expand_as(rows))
        assert set(rows.unique().tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("kind", list(KEYED))
def test_padding_leaves_the_masks_of_real_samples_alone(kind):
    x = torch.ones(SHAPES[kind])
    assert torch.equal(dropped(kind(0.5), x)[:4], dropped(kind(0.5), x[:4]))


@pytest.mark.parametrize("kind", list(KEYED))
def test_a_stack_of_clients_draws_each_clients_own_masks(kind):
    keys = torch.arange(6, dtype=torch.int32).view(3, 2)
    x = torch.ones(3, *SHAPES[kind])
    layers = with_keys(nn.Sequential(kind(0.5)))

    def one(key, x):
        with keyed(key):
            return layers(x)

    together = vmap(one)(keys, x)
    assert all(torch.equal(together[k], dropped(kind(0.5), x[k], keys[k])) for k in range(3))
    assert not torch.equal(together[0], together[1])


def test_neighbouring_keys_draws_and_places_are_independent():
    """Shares of pairs that are both kept, at p = 1/2: 1/4, within five deviations of 10^5 pairs."""
    layers = with_keys(nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5)))
    x = torch.ones(100, 1001)
    masks = []
    for words in ([7, 1], [8, 1], [7, 2], [0, 0], [-1, -1]):
        with keyed(torch.tensor(words, dtype=torch.int32)):
            first = layers[0](x)
            masks += [first > 0, layers[1](x) > 0]
    tolerance = 5 * (1 / 4 * 3 / 4 / 1e5) ** 0.5
    for i, mask in enumerate(masks):
        for shift in (1, 2, 16, 1001):
            flat = mask.flatten()
            assert float((flat[shift:] & flat[:-shift]).double().mean()) == pytest.approx(1 / 4, abs=tolerance)
        for other in masks[:i]:
            assert float((mask & other).double().mean()) == pytest.approx(1 / 4, abs=tolerance)


def test_gradients_pass_where_numbers_were_kept():
    x = torch.ones(5, 8, dtype=torch.float64, requires_grad=True)
    result = dropped(nn.Dropout(0.25), x)
    result.sum().backward()
    assert torch.equal(x.grad, result.detach())


def test_in_place_changes_its_input():
    x = torch.ones(5, 8)
    result = dropped(nn.Dropout(0.5, inplace=True), x)
    assert result is x
    assert torch.equal(x, dropped(nn.Dropout(0.5), torch.ones(5, 8)))


def test_p_of_0_keeps_and_p_of_1_drops_everything():
    x = torch.full((5, 8), 3.0)
    assert torch.equal(dropped(nn.Dropout(0.0), x), x)
    assert torch.equal(dropped(nn.Dropout(1.0), x), torch.zeros(5, 8))


@pytest.mark.parametrize("kind", list(KEYED))
def test_in_eval_mode_nothing_happens(kind):
    x = torch.ones(SHAPES[kind])
    assert dropped(kind(0.5).eval(), x) is x


def test_without_a_key_masks_are_pytorchs_own():
    x = torch.ones(5, 8)
    results = []
    for layer in (nn.Dropout(0.5), with_keys(nn.Sequential(nn.Dropout(0.5)))):
        with torch.random.fork_rng():
            torch.default_generator.manual_seed(1)
            results.append(layer(x))
    assert torch.equal(*results)


def test_every_forward_pass_begins_anew_and_a_layer_called_twice_draws_twice():
    network = Network(dropout_net(), 5)
    layer, x = network.prototype.drop, torch.ones(5, 8)
    passes = []
    for _ in range(2):
        with keyed(KEY):
            passes.append((layer(x), layer(x)))
    assert torch.equal(passes[0][0], passes[1][0])
    assert not torch.equal(passes[0][0], passes[0][1])


def test_a_network_leaves_the_users_module_and_subclasses_alone():
    class Own(nn.Dropout):
        pass

    module = nn.Sequential(nn.Dropout(0.5), Own(0.5), nn.Linear(4, 2))
    network = Network(module, 2)
    assert [type(layer) for layer in module] == [nn.Dropout, Own, nn.Linear]
    assert [type(layer) for layer in network.prototype] == [KeyedDropout, Own, nn.Linear]
    state = network.start(torch.device("cpu"), torch.float32)
    for given_back in (network, Network(network.prototype, 2)):
        assert [type(layer) for layer in given_back.module(state)] == [nn.Dropout, Own, nn.Linear]


def test_a_network_knows_whether_it_needs_keys():
    for layers, expected in [([nn.Dropout(0.5)], True), ([nn.Dropout(0.0)], False), ([nn.AlphaDropout(0.5)], False)]:
        assert Network(nn.Sequential(*layers, nn.Linear(4, 2)), 2).has_dropout is expected
