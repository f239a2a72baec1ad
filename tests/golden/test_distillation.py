"""FedNTD, FedLMD, FedKD, FedEKD and FedDKD: cross-entropy plus the teacher over some of the classes."""

import pytest
import torch

from fedvls import get_method
from fedvls.losses import ClientStatistics


def compare(case, parts, method, **names):
    """Cross-entropy, the other terms (expected name = term name) and the total."""
    batch = case.batch()
    values = parts(method, batch)
    case.check("ce", values["cross_entropy"])
    for expected, term in names.items():
        case.check(expected, values[term])
    case.check("total", method.loss(**batch))
    return values


@pytest.mark.golden("FedNTD")
def test_fedntd_distils_the_not_true_classes(case, parts):
    method = get_method("fedntd", beta=case.inputs["beta"], temperature=case.inputs["tau"])
    compare(case, parts, method, ntd="not_true_distillation")


@pytest.mark.golden("FedLMD", "A", "B")
def test_fedlmd_distils_what_is_neither_label_nor_majority(case, parts):
    method = get_method("fedlmd", beta=case.inputs["beta"], temperature=case.inputs["tau"])
    compare(case, parts, method, lmd="label_masked_distillation")
    assert majority_of(case) == case.expected("majority")


@pytest.mark.golden("FedLMD", "edge_*")
def test_fedlmd_skips_a_sample_whose_teacher_has_no_class_left(case, parts):
    values = parts(get_method("fedlmd", temperature=case.inputs["tau"]), case.batch())
    case.check("lmd_skip_empty", values["label_masked_distillation"])
    # The original code subtracts 1000 from masked logits, which then carry the teacher's whole mass: 42.2.
    assert case.expected("lmd_official_code") > 40 * values["label_masked_distillation"]
    assert majority_of(case) == case.expected("majority")


def majority_of(case):
    return torch.nonzero(ClientStatistics(case.tensor("class_counts")).majority).flatten().tolist()


@pytest.mark.golden("FedKD")
def test_fedkd_distils_all_classes(case, parts):
    method = get_method("fedkd", weight=case.inputs["weight"], temperature=case.inputs["T"])
    compare(case, parts, method, kd="full_distillation")


@pytest.mark.golden("FedEKD")
def test_fedekd_distils_the_existing_classes(case, parts):
    method = get_method("fedekd", weight=case.inputs["weight"], temperature=case.inputs["T"])
    compare(case, parts, method, ekd="existing_distillation")


@pytest.mark.golden("FedDKD")
def test_feddkd_weighs_the_target_and_the_other_classes_apart(case, parts):
    given = case.inputs
    original = get_method(
        "feddkd", weight=given["weight"], alpha=given["alpha"], beta=given["beta"], temperature=given["T"]
    )
    values = compare(case, parts, original, tckd="target_distillation", nckd="not_true_distillation")
    ce, batch = values["cross_entropy"], case.batch()
    whole = get_method("feddkd", weight=1.0, alpha=given["alpha"], beta=given["beta"], temperature=given["T"])
    case.check("dkd", whole.loss(**batch) - ce)
    case.check("dkd_alpha1_beta1", get_method("feddkd", weight=1.0).loss(**batch) - ce)
