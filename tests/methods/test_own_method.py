"""A method of your own is a function that returns a Method."""

from typing import Literal

import pytest
import torch

import fedvls
from fedvls import Method, get_method, losses
from fedvls.method import METHODS, from_spec

pytestmark = pytest.mark.usefixtures("own_methods")


def register_smoothing():
    @fedvls.term("smoothing")
    def smoothing(inputs):
        return inputs.over_batch(-inputs.logits.log_softmax(-1).mean(-1))

    @fedvls.register("smoothed", title="Smoothed", venue="here")
    def smoothed(share: float = 0.2, rule: Literal["mean", "extrapolated"] = "mean") -> Method:
        """Cross-entropy with smoothed labels."""
        server = fedvls.mean() if rule == "mean" else fedvls.extrapolated()
        objective = (1 - share) * losses.cross_entropy() + share * smoothing
        return Method(objective).with_(server=server)

    return smoothed


def test_it_computes_what_pytorch_does():
    register_smoothing()
    random = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(6, 4, generator=random), torch.tensor([0, 1, 2, 3, 0, 1])
    expected = torch.nn.functional.cross_entropy(logits, labels, label_smoothing=0.3)
    torch.testing.assert_close(get_method("smoothed", share=0.3).loss(logits=logits, labels=labels), expected)


def test_it_is_known_by_name_with_its_values_checked(message):
    register_smoothing()
    assert get_method("smoothed", share="0.25").spec == {"name": "smoothed", "share": 0.25, "rule": "mean"}
    assert "did you mean 'share'?" in message(get_method, "smoothed", shar=0.1)
    assert "is not one of 'mean', 'extrapolated'" in message(get_method, "smoothed", rule="median")
    assert "did you mean 'smoothed'?" in message(get_method, "smothed")
    entry = METHODS.entry("smoothed")
    assert entry.summary == "Cross-entropy with smoothed labels."
    assert entry.about == {"title": "Smoothed", "venue": "here"}


def test_parts_chosen_inside_the_builder_are_not_repeated_in_its_spec():
    register_smoothing()
    method = get_method("smoothed", rule="extrapolated")
    assert method.spec == {"name": "smoothed", "share": 0.2, "rule": "extrapolated"}
    assert from_spec(method.spec).describe == method.describe
    assert method.server.name == "extrapolated"


def test_it_combines_like_any_other():
    smoothed = register_smoothing()
    method = smoothed(0.1).with_(step=fedvls.sam(rho=0.2))
    assert from_spec(method.spec).describe == method.describe


def test_a_builder_with_a_required_value_says_so(message):
    @fedvls.register("demanding")
    def demanding(strength: float) -> Method:
        return Method(strength * losses.cross_entropy())

    assert message(get_method, "demanding") == "method 'demanding': missing a required argument: 'strength'"
    assert get_method("demanding", strength=2).describe["objective"] == "2 * cross_entropy"


def test_a_method_without_a_name_is_custom():
    assert Method(losses.cross_entropy()).spec == {"name": "custom"}
