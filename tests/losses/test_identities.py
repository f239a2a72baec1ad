"""Losses that must agree because their formulas do."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedvls.losses import ClientStatistics
from fedvls.losses.masking import divergence_over

COUNTS = [6, 0, 3, 0, 1]
ALIKE = [4, 4, 4, 4, 4]


def same(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


def cross_entropy(batch):
    return torch.nn.functional.cross_entropy(batch["logits"], batch["labels"])


@pytest.mark.parametrize("seed", range(5))
def test_distillation_is_its_target_part_plus_the_rest_weighed_by_the_teachers_doubt(
    method_of, draw_batch, parts, seed
):
    # Decoupled distillation at T = 1: KD = TCKD + mean_i (1 - p_i^teacher(y)) NCKD_i (Zhao et al. 2022, eq. 7).
    batch = draw_batch(COUNTS, 8, seed)
    whole = parts(method_of("fedkd"), batch)["full_distillation"]
    target = parts(method_of("feddkd"), batch)["target_distillation"]
    others = ~torch.nn.functional.one_hot(batch["labels"], 5).bool()
    rest = divergence_over(batch["teacher_logits"], batch["logits"], others, others)
    doubt = 1 - batch["teacher_logits"].softmax(-1).gather(-1, batch["labels"].unsqueeze(-1)).squeeze(-1)
    same(whole, target + (doubt * rest).mean())


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_fedlmd_without_a_majority_is_fedntd(method_of, draw_batch, temperature):
    batch = draw_batch(ALIKE, 8)
    assert not ClientStatistics(batch["counts"]).majority.any()
    fedlmd, fedntd = (method_of(name, temperature=temperature) for name in ("fedlmd", "fedntd"))
    assert torch.equal(fedlmd.loss(**batch), fedntd.loss(**batch))


def test_fedlmd_with_a_majority_is_not_fedntd(method_of, draw_batch):
    batch = draw_batch(COUNTS, 8)
    assert abs(method_of("fedlmd").loss(**batch) - method_of("fedntd").loss(**batch)) > 1e-3


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("fedavg", {}),
        ("fedrs", {"alpha": 1.0}),
        ("fedrs", {"alpha": 1.0, "scale": "soft"}),
        ("fedlc", {"tau": 0.0}),
        ("fedprox", {"mu": 0.0}),
        ("fedntd", {"beta": 0.0}),
        ("fedlmd", {"beta": 0.0}),
        ("fedkd", {"weight": 0.0}),
        ("fedekd", {"weight": 0.0}),
        ("feddkd", {"weight": 0.0}),
        ("fedvls", {"suppression": "none", "calibration": False, "distillation": False}),
        ("fedvls-soft", {"suppression": "none", "strength": 0.0, "lam": 0.0}),
        ("fedvls-soft", {"suppression": "none", "strength": 1.0, "smoothing": 1.0, "lam": 0.0}),
    ],
)
def test_neutral_values_give_cross_entropy_where_every_class_is_present(method_of, draw_batch, name, values):
    batch = draw_batch([6, 2, 3, 4, 1], 8)
    same(method_of(name, **values).loss(**batch), cross_entropy(batch))


def test_restricting_nothing_is_cross_entropy_with_vacant_classes_too(method_of, draw_batch):
    batch = draw_batch(COUNTS, 8)
    same(method_of("fedrs", alpha=1.0).loss(**batch), cross_entropy(batch))


def test_fedvls_soft_at_its_other_end_is_fedvls(method_of, draw_batch):
    batch = draw_batch(COUNTS, 8)
    hard = {"strength": 1.0, "smoothing": 0.0, "trust": "none"}
    same(method_of("fedvls-soft", **hard).loss(**batch), method_of("fedvls").loss(**batch))


def test_vacant_classes_stay_in_the_softened_softmax(method_of, draw_batch):
    """Smoothing s leaves a vacant class the weight s / C: with p = (.6, .4, 0, 0, 0) and s = 0.5 the weights are
    (.4, .3, .1, .1, .1), so that equal logits give -log .4 and -log .3."""
    batch = draw_batch([6, 4, 0, 0, 0], 2, labels=[0, 1]) | {"logits": torch.zeros(2, 5, dtype=torch.float64)}
    softened = method_of("fedvls-soft", strength=1.0, smoothing=0.5, lam=0.0, suppression="none")
    assert softened.loss(**batch).item() == pytest.approx(-(math.log(0.4) + math.log(0.3)) / 2, rel=1e-7)


def test_present_classes_are_calibrated_against_each_other_and_vacant_ones_left_alone(method_of, draw_batch):
    """A client with one class has plain cross-entropy; one with all classes has FedVLS's calibrated loss."""
    soft = {"strength": 1.0, "smoothing": 0.0, "vacant": "average", "lam": 0.0, "suppression": "none"}
    single = draw_batch([0, 7, 0, 0, 0], 8, labels=[1] * 8)
    same(method_of("fedvls-soft", **soft).loss(**single), cross_entropy(single))
    everything = draw_batch([6, 2, 3, 4, 1], 8)
    calibrated = method_of("fedvls", lam=0.0, suppression="none")
    same(method_of("fedvls-soft", **soft).loss(**everything), calibrated.loss(**everything))
    assert calibrated.loss(**single).item() < 1e-6  # what FedVLS learns from the labels of such a client


def test_a_teacher_counts_as_far_as_it_knows_the_labels(method_of, draw_batch, parts):
    """A teacher that gives every label probability q weighs q; one that is sure of another class has no say."""
    batch = draw_batch(COUNTS, 8)
    plain, trusted = (method_of("fedvls-soft", trust=trust) for trust in ("none", "distillation"))
    teacher = batch["teacher_logits"]
    labels = torch.nn.functional.one_hot(batch["labels"], 5).bool()
    others = teacher.masked_fill(labels, -math.inf).logsumexp(-1, keepdim=True)
    for probability in (0.9, 0.25, 1e-12):
        sure = torch.where(labels, others + math.log(probability / (1 - probability)), teacher)
        given = batch | {"teacher_logits": sure}
        whole, part = (parts(method, given)["vacant_distillation"].item() for method in (plain, trusted))
        assert part == pytest.approx(probability * whole, rel=1e-9)


def test_the_bounded_suppression_is_never_negative_and_vanishes_with_the_logits(draw_batch, parts, method_of):
    batch = draw_batch(COUNTS, 8)
    bounded = method_of("fedvls-soft", suppression="bounded")
    shifted = [batch | {"logits": batch["logits"] - s} for s in (0, 5, 40)]
    values = [parts(bounded, one)["logit_suppression"].item() for one in shifted]
    assert values[0] > values[1] > values[2] >= 0
    assert values[2] < 1e-12


@pytest.mark.parametrize("suppression", ["released", "printed"])
def test_fedvls_without_its_two_terms_is_the_calibrated_loss(method_of, draw_batch, parts, suppression):
    batch = draw_batch(COUNTS, 8)
    method = method_of("fedvls", lam=0.0, suppression=suppression, logit_weight=0.0)
    calibrated = parts(method_of("fedvls", suppression=suppression), batch)["calibrated_cross_entropy"]
    assert torch.equal(method.loss(**batch), calibrated)
    assert [term.name for term in method.objective.terms] == ["calibrated_cross_entropy"]


@pytest.mark.parametrize("suppression", ["released", "printed"])
def test_a_uniform_prior_calibrates_nothing(method_of, draw_batch, parts, suppression):
    # All classes alike: log p (or log(p + 1e-9)) is one constant, which a softmax does not see.
    batch = draw_batch(ALIKE, 8)
    same(parts(method_of("fedvls", suppression=suppression), batch)["calibrated_cross_entropy"], cross_entropy(batch))


@pytest.mark.parametrize("name", ["fedkd", "fedekd", "fedntd", "fedlmd", "feddkd"])
def test_temperature_divides_both_logits_and_multiplies_the_divergence_by_its_square(
    method_of, draw_batch, parts, name
):
    batch = draw_batch(COUNTS, 8)
    cooled = {**batch, **{k: batch[k] / 3 for k in ("logits", "teacher_logits")}}
    hot, plain = parts(method_of(name, temperature=3.0), batch), parts(method_of(name), cooled)
    for term in hot.keys() - {"cross_entropy"}:
        same(hot[term], 9 * plain[term])


def test_the_printed_prior_takes_vacant_classes_out_of_the_softmax(method_of, draw_batch, parts):
    batch = draw_batch(COUNTS, 8)
    present = [0, 2, 4]
    logits = batch["logits"][:, present] + torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64).log()
    labels = torch.tensor([present.index(label) for label in batch["labels"].tolist()])
    value = parts(method_of("fedvls", suppression="printed"), batch)["calibrated_cross_entropy"]
    same(value, torch.nn.functional.cross_entropy(logits, labels))


def test_fedlc_margins_shrink_with_the_fourth_root_of_the_count(method_of, draw_batch):
    # 16 and 81 samples: margins tau/2 and tau/3, exactly.
    batch = draw_batch([16, 81], 6)
    margins = torch.tensor([0.5 / 2, 0.5 / 3], dtype=torch.float64)
    expected = torch.nn.functional.cross_entropy(batch["logits"] - margins, batch["labels"])
    same(method_of("fedlc", tau=0.5).loss(**batch), expected)


@pytest.mark.parametrize("name", ["fedkd", "fedekd", "fedntd", "feddkd", "fedvls"])
def test_a_student_that_equals_its_teacher_is_taught_nothing(method_of, draw_batch, parts, name):
    batch = draw_batch(COUNTS, 8)
    values = parts(method_of(name), {**batch, "teacher_logits": batch["logits"]})
    taught = [value for term, value in values.items() if term.endswith("distillation")]
    assert taught
    assert all(value.abs() < 1e-12 for value in taught)


@given(counts=st.lists(st.integers(0, 9), min_size=2, max_size=7).filter(any), seed=st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_vacant_and_existing_distillation_are_the_divergences_of_the_cut_out_softmaxes(
    method_of, draw_batch, parts, counts, seed
):
    batch = draw_batch(counts, 5, seed)
    vacant = batch["counts"] == 0
    for name, term, classes in (
        ("fedvls", "vacant_distillation", vacant),
        ("fedekd", "existing_distillation", ~vacant),
    ):
        teacher, student = (batch[k][:, classes] for k in ("teacher_logits", "logits"))
        expected = torch.zeros(())
        if classes.sum() > 0:
            expected = torch.nn.functional.kl_div(
                student.log_softmax(-1), teacher.log_softmax(-1), reduction="batchmean", log_target=True
            )
        value = parts(method_of(name), batch)[term]
        torch.testing.assert_close(value, expected.to(value), rtol=1e-10, atol=1e-12)
