"""Methods of users' own that only train clients one by one: found out, and trained so."""

from __future__ import annotations

import pytest
import torch
from support import assert_close, small_mlp
from torch.nn import functional

import fedvls
from fedvls import (
    UsageError,
    methods,  # noqa: F401  (registers them)
)
from fedvls.engines import RoundJob, rehearsal
from fedvls.engines.rehearsal import rehearsed, why_one_by_one
from fedvls.losses import cross_entropy
from fedvls.method import METHODS
from fedvls.models.network import ModelState
from fedvls.recipe import Recipe

NAMES = [entry.name for entry in METHODS if entry.build.__module__.startswith("fedvls.")]


def job(method, **recipe):
    return RoundJob(ModelState({}, {}, {}), method, Recipe(**recipe), 0, 1)


def reason(method):
    return why_one_by_one(job(method), 10)


def likely(inputs):
    return inputs.logits.log_softmax(-1).gather(-1, inputs.labels.unsqueeze(-1)).squeeze(-1)


LOSSES = {
    "PyTorch's, with classes second": lambda inputs: functional.cross_entropy(inputs.logits, inputs.labels),
    "a mean over all clients": lambda inputs: -likely(inputs).mean(),
    "padding counted": lambda inputs: -likely(inputs).mean(-1),
    "one client's classes for all": lambda inputs: inputs.over_batch(
        -likely(inputs) - inputs.logits[..., inputs.client.counts.flatten()[: inputs.logits.shape[-1]] == 0].sum(-1)
    ),
    "numbers that nobody keyed": lambda inputs: inputs.over_batch(-likely(inputs)) * torch.rand(()),
}


def of_all_clients(gradient, point, context):
    found = gradient(point)
    norm = torch.cat([g.flatten() for g in found.values()]).norm()
    return {name: g / norm for name, g in found.items()}


def of_the_first_client(gradient, point, context):
    return {name: g[:1].expand_as(g) if context.leading else g for name, g in gradient(point).items()}


def own(loss):
    return fedvls.Method(objective=fedvls.term("own")(LOSSES[loss]))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("classes", [2, 10])
def test_no_method_of_the_package_is_kept_back(name, classes):
    assert rehearsed(job(fedvls.get_method(name)), classes) is None


@pytest.mark.parametrize("recipe", [{"persistent_momentum": True}, {"momentum": 0.0}, {"max_steps": 1}], ids=str)
def test_no_recipe_keeps_a_method_back(recipe):
    assert rehearsed(job(fedvls.get_method("fedvls"), **recipe), 10) is None


def test_a_run_of_the_packages_own_parts_is_not_rehearsed(monkeypatch):
    monkeypatch.setattr(rehearsal, "rehearsed", lambda *_: "tried")
    mixed = fedvls.Method(objective=cross_entropy() + fedvls.term("own")(lambda inputs: inputs.logits.sum((-2, -1))))
    assert [reason(fedvls.get_method(name)) for name in NAMES] == [None] * len(NAMES)
    assert reason(mixed) == "tried"


@pytest.mark.parametrize("loss", list(LOSSES))
def test_losses_for_one_client_are_found_out(loss):
    assert "several clients at once" in (reason(own(loss)) or "")


@pytest.mark.parametrize("direction", [of_all_clients, of_the_first_client])
def test_steps_for_one_client_are_found_out(direction):
    method = fedvls.Method(objective=cross_entropy(), step=fedvls.Step(direction))
    assert "several clients at once" in (reason(method) or "")


def test_what_fails_for_one_client_too_is_left_for_the_run_to_say():
    def missing(inputs):
        return inputs.params["no such layer"].sum()

    assert reason(fedvls.Method(objective=fedvls.term("own", "params")(missing))) is None


def test_the_trial_leaves_no_trace_in_pytorchs_random_numbers():
    before = torch.get_rng_state()
    reason(own("numbers that nobody keyed"))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("batch_size", [10, 64])
@pytest.mark.parametrize("engine", ["auto", "parallel"])
@pytest.mark.parametrize("loss", ["PyTorch's, with classes second", "a mean over all clients", "padding counted"])
def test_the_run_trains_such_a_method_one_by_one(stripes, loss, engine, batch_size):
    """Ten classes and minibatches of ten: PyTorch's loss would take one for the other and say nothing."""

    def run(engine):
        fed = fedvls.Federation(stripes, clients=4, model=small_mlp(), engine=engine, device="cpu", dtype="float64")
        return fed.run(own(loss), 2, 2, batch_size=batch_size, out=None)

    found = run(engine)
    assert_close(found.weights.params, run("sequential").weights.params, 1e-9)
    assert found.header["engine"]["name"] == "parallel"
    assert engine != "auto" or "several clients at once" in found.header["engine"]["why"]


def test_an_engine_asked_for_by_name_says_what_is_wrong(stripes):
    fed = fedvls.Federation(stripes, clients=4, model=small_mlp(), engine="stacked", device="cpu")
    with pytest.raises(UsageError, match=r"'stacked' cannot train this: its loss or step .*; use --engine sequential"):
        fed.run(own("a mean over all clients"), 1, 1, out=None)
