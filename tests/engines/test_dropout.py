"""Dropout in every engine: the same masks, whoever trains, so the same weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support import assert_close, batch_norm_net, dropout_net
from torch import nn

import fedvls
from fedvls.engines.batches import dropout_keys

# What agrees for every method is in test_stacked.py; here is what is particular to dropout.


def federation(data, model, engine="sequential", **more):
    partition = fedvls.dirichlet(beta=0.5, min_size=5)
    return fedvls.Federation(
        data, partition=partition, clients=4, model=model, engine=engine, device="cpu", **{"dtype": "float64", **more}
    )


def weights(data, model, engine, method="fedvls", **more):
    result = federation(data, model, engine).run(method, 2, 2, batch_size=10, local_every=100, out=None, **more)
    return result.weights.tensors()


class FunctionalDropout(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        return self.head(F.dropout(x.flatten(1), 0.5, self.training))


class OwnDropout(nn.Dropout):
    def forward(self, input):
        return input * torch.rand_like(input) if self.training else input


def behind(*layers):
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(16, 5))


def test_parallel_ends_with_the_sequential_engines_bits(stripes):
    theirs = weights(stripes, dropout_net(), "sequential")
    mine = weights(stripes, dropout_net(), "parallel")
    assert all(torch.equal(tensor, mine[name]) for name, tensor in theirs.items())


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Dropout(0.3), batch_norm_net()),
        nn.Sequential(nn.Flatten(2), nn.Conv1d(1, 4, 3), nn.Dropout1d(0.4), nn.Flatten(), nn.Linear(56, 5)),
        nn.Sequential(nn.Unflatten(1, (1, 1)), nn.Conv3d(1, 4, 1), nn.Dropout3d(0.4), nn.Flatten(), nn.Linear(64, 5)),
        behind(nn.Linear(16, 16), nn.Dropout(0.5, inplace=True)),
        behind(nn.Dropout(0.0), nn.Dropout(1.0)),
    ],
    ids=["batch norm", "1d", "3d", "in place", "nothing and all"],
)
def test_every_kind_of_layer_agrees_in_stacks(stripes, model):
    """With batches of 10 every client has a remainder, which under BatchNorm is padded to 10."""
    for method in ("fedvls", "fedsam"):
        theirs = weights(stripes, model, "sequential", method)
        assert_close(weights(stripes, model, "stacked", method), theirs, 1e-9)


def test_augmented_epochs_have_their_own_masks():
    """Augmented images are prepared an epoch at a time: the key of a minibatch is that of its epoch and place."""
    random = np.random.RandomState(0)
    x, y = random.randint(0, 256, (60, 3, 8, 8), dtype=np.uint8), np.arange(60) % 5
    data = fedvls.FederatedData.from_arrays(x, y, x[:9], y[:9], name="noise", mean=(0.5,) * 3, std=(0.2,) * 3)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Dropout2d(0.3), nn.Flatten(), nn.Dropout(0.3), nn.Linear(144, 5))
    results = [
        federation(data, model, engine, augmentation="cifar").run("fedavg", 2, 3, batch_size=7, out=None)
        for engine in ("sequential", "stacked")
    ]
    theirs, mine = (result.weights.tensors() for result in results)
    assert_close(mine, theirs, 1e-9)


def test_dropout_is_really_there(stripes):
    whole = dropout_net()
    without = dropout_net()
    without.drop = without.drop_channels = nn.Identity()
    apart = [weights(stripes, model, "stacked")["hidden.weight"] for model in (whole, without)]
    assert (apart[0] - apart[1]).norm() > 0.01 * apart[1].norm()


@pytest.mark.parametrize("engine", ["sequential", "parallel", "stacked"])
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(stripes, engine):
    first, again, other = (
        federation(stripes, dropout_net(), engine, seed=seed, partition_seed=0, dtype="float32")
        .run("fedavg", 1, 1, batch_size=1000, out=None)  # one minibatch: the seed decides nothing but masks
        .weights.tensors()
        for seed in (0, 0, 1)
    )
    assert all(torch.equal(tensor, again[name]) for name, tensor in first.items())
    assert not torch.allclose(first["hidden.weight"], other["hidden.weight"])


@pytest.mark.parametrize("engine", ["sequential", "stacked"])
def test_resume_is_bit_identical(stripes, tmp_path, engine):
    class Stop(fedvls.Callback):
        def on_round(self, record, timing):
            if record["round"] == 2:
                raise KeyboardInterrupt

    whole = federation(stripes, dropout_net(), engine).run("fedavg", 4, 1, out=None)
    with pytest.raises(KeyboardInterrupt):
        federation(stripes, dropout_net(), engine).run("fedavg", 4, 1, out=tmp_path / "run", callbacks=[Stop()])
    resumed = federation(stripes, dropout_net(), engine).run("fedavg", 4, 1, out=tmp_path / "run")
    assert resumed.records == whole.records
    expected = whole.weights.tensors()
    assert all(torch.equal(t, expected[name]) for name, t in resumed.weights.tensors().items())


def test_both_passes_of_sam_see_the_same_masks(stripes):
    """At rho = 1e-12 the second pass is where the first one was: with its masks, SAM's weights are SGD's."""
    sam = fedvls.get_method("fedavg").with_(step=fedvls.sam(rho=1e-12))
    for engine in ("sequential", "stacked"):
        plain = weights(stripes, dropout_net(), engine, "fedavg")
        assert_close(weights(stripes, dropout_net(), engine, sam), plain, 1e-9)


def test_a_minibatch_has_a_key_of_its_own():
    places = [(s, r, c, e) for s in (0, 1) for r in (1, 2) for c in (0, 1) for e in (0, 1)]
    keys = [dropout_keys(5, seed=s, round=r, client=c, epoch=e) for s, r, c, e in places]
    assert len({tuple(key) for epoch in keys for key in epoch.tolist()}) == 16 * 5
    assert dropout_keys(3, seed=0, round=1, client=0, epoch=0).tolist() == keys[0][:3].tolist()


@pytest.mark.parametrize(
    ("model", "culprit"),
    [
        (behind(nn.AlphaDropout(0.2)), "AlphaDropout"),
        (behind(nn.Dropout(0.5), nn.FeatureAlphaDropout(0.2)), "FeatureAlphaDropout"),
        (behind(OwnDropout(0.5)), "OwnDropout"),
        (FunctionalDropout(), "in its forward"),
    ],
)
def test_other_draws_are_refused_in_stacks_and_keyed_in_sequence(stripes, model, culprit):
    message = (
        rf"engine 'stacked' cannot train this: the model draws random numbers as it goes \({culprit}\); .* Dropout,"
    )
    with pytest.raises(fedvls.UsageError, match=message):
        weights(stripes, model, "stacked")
    before = torch.get_rng_state()
    first, second = (weights(stripes, model, "sequential") for _ in range(2))
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())
    assert torch.equal(torch.get_rng_state(), before)


def test_a_layer_that_never_draws_is_no_obstacle(stripes):
    weights(stripes, behind(nn.AlphaDropout(0.0)), "stacked", "fedavg")


def test_a_teacher_with_dropout_is_refused_in_stacks(stripes):
    with pytest.raises(fedvls.UsageError, match="teacher_mode = train: the teacher's dropout"):
        weights(stripes, dropout_net(), "stacked", teacher_mode="train")
    assert weights(stripes, dropout_net(), "sequential", teacher_mode="train")
