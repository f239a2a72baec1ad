"""Claims are judged from measured cells only. The cells here are made up so that the outcome is known."""

from __future__ import annotations

import pytest

from fedvls.studies.claims import FAILS, HOLDS, UNKNOWN, judge
from fedvls.studies.study import load_study

DIRICHLET = load_study("dirichlet")
FIRST = {"text": "first", "kind": "first", "subject": "fedvls"}
ORDER = {"text": "order", "kind": "order", "names": ["fedvls", "fedntd", "fedavg"]}
WIDENING = {"text": "widening", "kind": "widening", "subject": "fedvls", "over": "fedavg", "group": "dataset"}
MNIST = ("mnist, beta 0.5", "mnist, beta 0.1", "mnist, beta 0.05")


def outcome(claim, values, where):
    """The case of this name when these cells are measured."""
    return next(case for case in judge(claim, DIRICHLET, values).cases if case.where == where)


def column(where, **values):
    return {(row, where): value for row, value in values.items()}


def test_first_needs_the_subject_and_a_rival():
    assert outcome(FIRST, {}, MNIST[0]).outcome == UNKNOWN
    assert outcome(FIRST, column(MNIST[0], fedvls=90.0), MNIST[0]).outcome == UNKNOWN
    assert outcome(FIRST, column(MNIST[0], fedavg=90.0, fedlc=80.0), MNIST[0]).outcome == UNKNOWN


def test_first_says_how_many_were_compared():
    won = outcome(FIRST, column(MNIST[0], fedvls=90.0, fedavg=88.5), MNIST[0])
    assert (won.outcome, won.detail) == (HOLDS, "rank 1 of 2, of 13 in the paper; +1.50 against fedavg")
    lost = outcome(FIRST, column(MNIST[0], fedvls=88.0, fedavg=88.5, fedlc=91.0), MNIST[0])
    assert (lost.outcome, lost.detail) == (FAILS, "rank 3 of 3, of 13 in the paper; -3.00 against fedlc")


def test_a_tie_is_not_first():
    """Runs too short to learn anything predict alike: that must not read as a claim that holds."""
    level = outcome(FIRST, column(MNIST[0], fedvls=90.0, fedavg=90.0, fedlc=80.0), MNIST[0])
    assert (level.outcome, level.detail) == (FAILS, "rank 1 of 3, of 13 in the paper; level with fedavg")


def test_one_measured_column_says_nothing_about_another():
    verdict = judge(FIRST, DIRICHLET, column(MNIST[0], fedvls=90.0, fedavg=88.5))
    assert [case.outcome for case in verdict.cases] == [HOLDS] + [UNKNOWN] * 11
    assert verdict.summary == "holds; in the paper holds in 11 of 12 cases"


def test_nothing_measured_is_said_to_be_not_measured():
    assert judge(FIRST, DIRICHLET, {}).summary == "not measured; in the paper holds in 11 of 12 cases"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"fedvls": 3.0, "fedntd": 2.0, "fedavg": 1.0}, HOLDS),
        ({"fedvls": 3.0, "fedntd": 1.0, "fedavg": 2.0}, FAILS),
        ({"fedvls": 3.0, "fedntd": 3.0, "fedavg": 2.0}, FAILS),  # a tie is no lead
        ({"fedvls": 3.0, "fedavg": 2.0}, UNKNOWN),
    ],
)
def test_order_needs_everyone_it_names(values, expected):
    assert outcome(ORDER, column(MNIST[0], **values), MNIST[0]).outcome == expected


@pytest.mark.parametrize(
    ("leads", "expected"),
    [((1.0, 2.0, 3.0), HOLDS), ((-3.0, -2.0, 1.0), HOLDS), ((1.0, 3.0, 2.0), FAILS), ((1.0, 1.0, 2.0), FAILS)],
)
def test_a_lead_widens_when_it_grows_at_every_step(leads, expected):
    values = {}
    for where, lead in zip(MNIST, leads, strict=True):
        values |= column(where, fedvls=50 + lead, fedavg=50.0)
    assert outcome(WIDENING, values, "mnist").outcome == expected
    assert outcome(WIDENING, values, "cifar10").outcome == UNKNOWN


def test_a_trend_needs_two_points():
    assert outcome(WIDENING, column(MNIST[0], fedvls=51.0, fedavg=50.0), "mnist").outcome == UNKNOWN


def test_lowest_turns_the_comparison_round():
    drift = load_study("drift")
    claim = next(claim for claim in drift.claims if claim["kind"] == "first")
    values = {("drift diversity", "fedvls"): 8.0, ("drift diversity", "fedavg"): 29.0}
    assert judge(claim, drift, values).cases[0].outcome == HOLDS
    assert judge(claim, drift, {**values, ("drift diversity", "fedlc"): 7.0}).cases[0].outcome == FAILS


def test_flat_compares_the_spread_with_its_limit():
    study = load_study("lambda")
    (claim,) = study.claims
    near = {("cifar10", "lam 0.05"): 74.0, ("cifar10", "lam 1.0"): 75.9}
    assert judge(claim, study, near).cases[0].outcome == HOLDS
    assert judge(claim, study, {**near, ("cifar10", "lam 0.5"): 76.1}).cases[0].outcome == FAILS
