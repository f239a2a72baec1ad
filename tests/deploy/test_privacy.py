"""Flower's differential-privacy wrappers and mods around our strategy and our ClientApp."""

from __future__ import annotations

import math

import pytest
import torch
from flwr.clientapp.mod import adaptiveclipping_mod, fixedclipping_mod
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
)
from support import batch_norm_net
from torch import nn

import fedvls
from deploy.loopback import Loopback, deploy, final_weights, node_configs, settings
from fedvls.flower import client_app, server_app

CLIP = 0.05
# The clip moves by exp(0.005 x), where x is a normal number of deviation 1 or a little more: by less than 4 %.
ADAPTIVE = {"initial_clipping_norm": CLIP, "clip_norm_lr": 0.005, "clipped_count_stddev": 3.0}
WRAPPERS = {
    "server, fixed": (DifferentialPrivacyServerSideFixedClipping, ()),
    "client, fixed": (DifferentialPrivacyClientSideFixedClipping, (fixedclipping_mod,)),
    "server, adaptive": (DifferentialPrivacyServerSideAdaptiveClipping, ()),
    "client, adaptive": (DifferentialPrivacyClientSideAdaptiveClipping, (adaptiveclipping_mod,)),
}


def run_private(folder, kind, noise, method="fedvls", **values):
    wrapper, mods = WRAPPERS[kind]
    norm = ADAPTIVE if "adaptive" in kind else {"clipping_norm": CLIP}
    config = settings(folder / "run", **{"aggregation_weights": "uniform", "method.name": method, **values})
    app = server_app(wrap=lambda strategy: wrapper(strategy, noise, num_sampled_clients=3, **norm))
    grid = Loopback(client_app(mods=mods), node_configs(3, folder), config)
    return deploy(app, grid), grid


def distance(one, other):
    return math.sqrt(sum(float((one[k].double() - other[k].double()).square().sum()) for k in one))


def start_weights():
    return fedvls.Federation("digits", clients=3).network.start(torch.device("cpu"), torch.float32).tensors()


@pytest.mark.parametrize("kind", [k for k in WRAPPERS if "fixed" in k])
def test_without_noise_a_round_moves_the_model_by_at_most_the_clipping_norm(kind, tmp_path):
    """The mean of vectors of length at most CLIP; unclipped, a round of this run moves the model 1.5 or more."""
    run, _ = run_private(tmp_path, kind, 0.0, rounds=1)
    moved = distance(final_weights(run.path), start_weights())
    assert 0.5 * CLIP < moved <= CLIP * (1 + 1e-5)


@pytest.mark.parametrize("kind", WRAPPERS)
def test_noise_is_in_the_checkpoint_and_in_what_the_sites_get_next(kind, tmp_path):
    """sigma = z * clip / sites = 2 * 0.05 / 3 on every parameter. Where the number of clipped updates is noisy too, of
    deviation 3, z is (2^-2 - (2 * 3)^-2)^-1/2, so that both together are worth the 2 that was asked for."""
    run, grid = run_private(tmp_path, kind, 2.0, rounds=2)
    first = next(m for m in grid.down if m.content["config"]["server-round"] == 1).content["arrays"]
    second = next(m for m in grid.down if m.content["config"]["server-round"] == 2).content["arrays"]
    change = torch.cat([torch.from_numpy(second[k].numpy() - first[k].numpy()).flatten() for k in first])
    z = (2.0**-2 - 6.0**-2) ** -0.5 if "adaptive" in kind else 2.0
    assert float(change.std()) == pytest.approx(z * CLIP / 3, rel=0.1)
    assert [r["round"] for r in run.records()] == [1, 2]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"aggregation_weights": "selected"}, "set aggregation_weights = uniform"),
        ({"method": "scaffold"}, "uses more of the updates than their mean"),
        ({"method": "fedavgm"}, "uses more of the updates than their mean"),
    ],
)
def test_what_the_noise_would_not_cover_is_refused(values, reason, tmp_path):
    with pytest.raises(fedvls.UsageError, match=reason):
        run_private(tmp_path, "server, fixed", 1.0, **values)


def test_a_model_with_batch_norm_is_refused(tmp_path):
    model = nn.Sequential(nn.AvgPool2d(2), batch_norm_net(10))
    config = settings(tmp_path / "run", aggregation_weights="uniform")
    del config["model.name"]
    app = server_app(
        model=model, wrap=lambda s: DifferentialPrivacyServerSideFixedClipping(s, 1.0, CLIP, num_sampled_clients=3)
    )
    with pytest.raises(fedvls.UsageError, match="BatchNorm"):
        deploy(app, Loopback(client_app(model=model), node_configs(3, tmp_path), config))
