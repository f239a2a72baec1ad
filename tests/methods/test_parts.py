"""A combination is a method with a part replaced, and nothing else; a spec rebuilds it."""

import pytest

from fedvls import Method, Step, UsageError, extrapolated, get_method, losses, mean, sam, sgd
from fedvls.aggregation import direction_mean, dynamic_mean, prototype_mean
from fedvls.method import from_spec
from fedvls.steps import flatness, momentum_sam

REPLACEMENTS = [
    {"step": sam(rho=0.05)},
    {"step": sgd(), "server": extrapolated(eps=0.001)},  # some steps need the rule they come with
    {"step": momentum_sam(rho=0.2, beta=0.5), "server": direction_mean()},
    {"step": sgd(), "server": mean()},
]


def test_a_spec_rebuilds_the_method(registered):
    method = get_method(registered)
    again = from_spec(method.spec)
    assert again.spec == method.spec
    assert again.describe == method.describe


@pytest.mark.parametrize("parts", REPLACEMENTS, ids=lambda parts: "+".join(p.name for p in parts.values()))
def test_a_spec_rebuilds_replaced_parts(registered, parts):
    method = get_method(registered).with_(**parts)
    again = from_spec(method.spec)
    assert again.spec == method.spec
    assert again.describe == method.describe


@pytest.mark.parametrize("parts", REPLACEMENTS, ids=lambda parts: "+".join(p.name for p in parts.values()))
def test_replacing_a_part_leaves_the_others_alone(registered, parts):
    before = get_method(registered)
    after = before.with_(**parts)
    assert after.objective == before.objective
    assert after.needs == before.needs
    for part in ("step", "server"):
        assert getattr(after, part) is parts.get(part, getattr(before, part))
    assert (after.name, after.values) == (before.name, before.values)
    assert before.replaced == frozenset()


def test_combinations_are_fedvls_with_one_part_of_another_method():
    fedvls = get_method("fedvls", lam=0.5)
    by_hand = fedvls.with_(step=sam(rho=0.2)).describe
    registered = get_method("fedvls+fedsam", lam=0.5, rho=0.2).describe
    for part in ("objective", "step", "server"):
        assert registered[part] == by_hand[part]
    by_hand = fedvls.with_(server=extrapolated(eps=0.1)).describe
    registered = get_method("fedvls+fedexp", lam=0.5, eps=0.1).describe
    for part in ("objective", "step", "server"):
        assert registered[part] == by_hand[part]


def test_a_spec_names_replaced_parts_only():
    assert get_method("fedsam").spec == {"name": "fedsam", "rho": 0.1}
    assert get_method("fedavg").with_(step=sam(rho=0.2)).spec == {
        "name": "fedavg",
        "step": {"name": "sam", "rho": 0.2, "norm_eps": 1e-12, "statistics": "first"},
    }


def test_parts_replaced_one_after_the_other_are_all_remembered():
    method = get_method("fedvls").with_(step=sam(rho=0.2)).with_(server=extrapolated(eps=0.5))
    assert method.spec == get_method("fedvls").with_(step=sam(rho=0.2), server=extrapolated(eps=0.5)).spec
    assert from_spec(method.spec).describe == method.describe


def test_a_step_may_be_given_by_its_name_alone():
    assert (
        from_spec({"name": "fedavg", "step": "sam"}).describe
        == from_spec({"name": "fedavg", "step": {"name": "sam"}}).describe
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"lam": 1}, "method = {'lam': 1} has no name; give one, e.g. {name: fedvls}"),
        ({"name": "fedvls", "step": "sma"}, "unknown step 'sma'; did you mean 'sam'?"),
        ({"name": "fedvls", "server": {"name": "meen"}}, "unknown server rule 'meen'; did you mean 'mean'?"),
        (
            {"name": "fedvls", "step": {"name": "sam", "rhoo": 1}},
            "unknown value for step 'sam': 'rhoo'; did you mean 'rho'?",
        ),
        ({"name": "fedvls", "lamb": 1}, "unknown value for method 'fedvls': 'lamb'; did you mean 'lam'?"),
    ],
)
def test_a_spec_that_does_not_exist_is_named(message, spec, expected):
    assert message(from_spec, spec) == expected


def test_an_objective_replaced_in_python_cannot_come_from_a_config(message):
    spec = get_method("fedvls").with_(objective=losses.cross_entropy()).spec
    assert spec["objective"] == ["cross_entropy"]
    assert "register it" in message(from_spec, spec)


@pytest.mark.parametrize(
    ("name_and_values", "left"),
    [
        (("fedprox", {"mu": 0}), ["cross_entropy"]),
        (("fedntd", {"beta": 0}), ["cross_entropy"]),
        (("fedkd", {"weight": 0}), ["cross_entropy"]),
        (("feddkd", {"alpha": 0, "beta": 0}), ["cross_entropy"]),
        (("fedvls", {"lam": 0}), ["calibrated_cross_entropy", "logit_suppression"]),
        (("fedvls", {"lam": 0, "logit_weight": 0}), ["calibrated_cross_entropy"]),
    ],
)
def test_a_term_of_weight_zero_is_gone_and_needs_no_teacher(name_and_values, left):
    built, values = name_and_values
    method = get_method(built, **values)
    assert [term.name for term in method.objective.terms] == left
    assert method.needs == frozenset()


def test_an_objective_of_zeros_keeps_its_first_term():
    method = Method(0.0 * losses.cross_entropy() + 0.0 * losses.proximal())
    assert [term.name for term in method.objective.terms] == ["cross_entropy"]


def test_a_step_of_your_own_is_called_custom():
    def direction(gradient, point, context):
        return {name: value.sign() for name, value in gradient(point).items()}

    assert get_method("fedavg").with_(step=Step(direction)).spec["step"] == {"name": "custom"}


@pytest.mark.parametrize(
    ("method", "part", "told"),
    [
        ("scaffold", {"server": mean()}, "step 'controlled' needs the server rule 'controlled-mean', not 'mean'"),
        ("fedavg", {"step": flatness()}, "step 'flatness' needs the server rule 'flatness-mean', not 'mean'"),
        ("fedavg", {"server": prototype_mean()}, "needs clients that send class prototypes"),
        ("fedavg", {"server": dynamic_mean()}, "needs clients that send dynamic gradients"),
    ],
)
def test_parts_that_need_each_other_cannot_be_torn_apart(method, part, told):
    with pytest.raises(UsageError, match=told):
        get_method(method).with_(**part)
