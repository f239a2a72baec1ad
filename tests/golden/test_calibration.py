"""FedAvg, FedLC and FedRS: cross-entropy, plain, with margins and with scaled logits."""

import pytest

from fedvls import get_method


@pytest.mark.golden("FedAvg", "ce_*")
def test_fedavg_is_cross_entropy(case):
    case.check("loss", get_method("fedavg").loss(**case.batch()))


@pytest.mark.golden("FedLC")
def test_fedlc_has_the_worked_loss_with_and_without_the_true_class(case):
    tau, batch = case.inputs["tau"], case.batch()
    case.check("loss_with_true_in_denominator", get_method("fedlc", tau=tau).loss(**batch))
    left_out = get_method("fedlc", tau=tau, true_class="left-out")
    case.check("loss_original_formula_true_excluded", left_out.loss(**batch))


@pytest.mark.golden("FedRS")
def test_fedrs_is_cross_entropy_of_the_worked_scale_times_the_logits(case):
    batch = case.batch()
    for scale, suffix in (("hard", ""), ("soft", "_official_soft")):
        case.check(f"loss{suffix}", get_method("fedrs", alpha=case.inputs["alpha"], scale=scale).loss(**batch))
        scaled = batch["logits"] * batch["logits"].new_tensor(case.expected(f"scale{suffix}"))
        case.check(f"loss{suffix}", get_method("fedavg").loss(logits=scaled, labels=batch["labels"]))
