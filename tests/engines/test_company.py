"""Models that say of a sample what depends on the company it is in, in evaluation mode, too.

The sequential engine shows a teacher every minibatch by itself. Engines that show it whole epochs must not train these.
"""

from __future__ import annotations

import pytest
import torch
from support import assert_close
from torch import nn

import fedvls
from fedvls.lift.masked import Rows
from fedvls.lift.trial import samples_are_apart, samples_are_apart_in_evaluation


class Centred(nn.Module):
    """Takes the minibatch's mean away."""

    def __init__(self):
        super().__init__()
        self.hidden, self.head = nn.Linear(16, 8), nn.Linear(8, 5)

    def forward(self, x):
        x = torch.tanh(self.hidden(x.flatten(1)))
        return self.head(x - x.mean(0))


def normalising(**options):
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.BatchNorm1d(8, **options), nn.ReLU(), nn.Linear(8, 5))


def without_statistics():
    return normalising(track_running_stats=False)


COMPANY = [Centred, without_statistics]
ASKS = ["fedvls", "fedntd", "fedvls+fedsam", "moon"]


def weights(data, method, model, engine, **more):
    torch.manual_seed(0)
    partition = fedvls.dirichlet(beta=0.5, min_size=5)
    fed = fedvls.Federation(
        data, partition=partition, clients=4, model=model(), engine=engine, dtype="float64", device="cpu"
    )
    return fed.run(method, 2, 2, batch_size=6, out=None, local_every=100, **more).weights.tensors()


@pytest.mark.parametrize("model", COMPANY)
@pytest.mark.parametrize("name", ASKS)
def test_a_teacher_that_minds_company_is_not_shown_whole_epochs(stripes, name, model):
    with pytest.raises(
        fedvls.UsageError, match=r"'stacked' cannot train this: .* depends on the minibatch .* sequential"
    ):
        weights(stripes, name, model, "stacked")
    theirs = weights(stripes, name, model, "sequential")
    assert_close(weights(stripes, name, model, "auto"), theirs, 1e-9)


@pytest.mark.parametrize("model", COMPANY)
def test_a_method_without_a_teacher_trains_it_in_stacks(stripes, model):
    theirs = weights(stripes, "fedavg", model, "sequential")
    assert_close(weights(stripes, "fedavg", model, "stacked"), theirs, 1e-9)


@pytest.mark.parametrize("name", ["fedvls", "fedntd"])
def test_so_does_one_whose_teacher_sees_minibatches(stripes, name):
    theirs = weights(stripes, name, without_statistics, "sequential", teacher_mode="train")
    assert_close(weights(stripes, name, without_statistics, "stacked", teacher_mode="train"), theirs, 1e-9)


class OnInputs(nn.Module):
    """Its classifier takes the samples as they are, so that features have no gradient."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        return self.head(x.flatten(1))


@pytest.mark.parametrize("name", ["fedmr", "fpl"])
def test_features_may_be_the_inputs(stripes, name):
    theirs = weights(stripes, name, OnInputs, "sequential")
    assert_close(weights(stripes, name, OnInputs, "stacked"), theirs, 1e-9)


def test_a_model_that_cannot_be_stacked_is_one_line(stripes):
    with pytest.raises(fedvls.UsageError, match=r"'stacked' cannot train this: a step failed \(.*\); use --engine seq"):
        weights(stripes, "fedavg", lambda: normalising(momentum=None), "stacked")


def test_the_trial_tells_who_minds_company():
    x = torch.randn(16, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    found = {model: samples_are_apart_in_evaluation(model(), x) for model in (*COMPANY, normalising)}
    assert found == {Centred: False, without_statistics: False, normalising: True}


def test_a_trial_sees_past_a_layer_that_is_silent_on_the_first_samples():
    """With three samples, on which the ReLU says 0, the mean of the minibatch went unseen."""

    class Silent(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(1, 5)

        def forward(self, x):
            x = torch.relu(x.flatten(1)[:, :1])
            return self.head(x - x.mean(0))

    x = torch.cat([-torch.ones(3, 1, 4, 4), torch.rand(13, 1, 4, 4, generator=torch.Generator().manual_seed(0))])
    assert not samples_are_apart(Silent(), x, Rows())
