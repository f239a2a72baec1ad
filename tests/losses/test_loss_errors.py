"""What does not fit is named in one line."""

import re

import pytest
import torch

from fedvls import UsageError, get_method

LOGITS, LABELS = torch.zeros(3, 4), torch.tensor([0, 2, 3])


def message(method="fedavg", **given):
    """The one line `Method.loss` fails with."""
    with pytest.raises(UsageError) as caught:
        get_method(method).loss(**{"logits": LOGITS, "labels": LABELS, **given})
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("method", "given", "missing"),
    [
        ("fedvls", {}, "teacher_logits"),
        ("fedntd", {}, "teacher_logits"),
        ("fedprox", {}, "params"),
        ("fedprox", {"params": {"w": LOGITS}}, "teacher_params"),
    ],
)
def test_what_a_method_needs_is_named(method, given, missing):
    assert message(method, **given) == f"method {method!r} needs {missing}=: it is part of its loss"


@pytest.mark.parametrize("labels", [torch.tensor([0, 1]), torch.zeros(3, 4, dtype=torch.int64), torch.tensor(1)])
def test_labels_of_another_shape_are_named_with_both_shapes(labels):
    assert message(labels=labels) == (
        f"logits (3, 4) and labels {tuple(labels.shape)} do not fit: "
        "logits are [..., batch, classes], labels [..., batch]"
    )


def test_logits_without_a_batch_axis_are_refused():
    assert message(logits=torch.zeros(4), labels=torch.tensor(1)).startswith("logits (4,) and labels () do not fit")


def test_teacher_logits_of_another_shape_are_named_with_both_shapes():
    text = message("fedvls", teacher_logits=torch.zeros(3, 5))
    assert text == "teacher_logits (3, 5) must have the shape of logits (3, 4)"


@pytest.mark.parametrize(("labels", "found"), [([0, 1, 4], "0..4"), ([-1, 0, 0], "-1..0"), ([7, 7, 7], "7..7")])
def test_labels_outside_the_classes_are_named(labels, found):
    assert message(labels=torch.tensor(labels)) == f"labels must lie in 0..3; found {found}"


def test_counts_for_another_number_of_classes_are_named():
    assert message(counts=[1, 2, 3]) == "counts (3,) must have the shape (4,): samples per class of the client"


@pytest.mark.parametrize("counts", [[1, -1, 2, 0], [0, 0, 0, 0]])
def test_negative_or_empty_counts_are_refused(counts):
    assert message(counts=counts) == "counts must be finite and non-negative, with at least one sample per client"


@pytest.mark.parametrize(
    ("method", "given", "named"),
    [
        ("fedvls", {"counts": torch.ones(3, 4), "teacher_logits": LOGITS}, r"counts \(3, 4\)"),
        ("fedavg", {"sample_mask": torch.ones(2)}, r"sample_mask \(2,\)"),
        ("fedavg", {"sample_mask": torch.ones(1)}, r"sample_mask \(1,\)"),
        ("fedprox", {"params": {"w": torch.ones(3)}, "teacher_params": {"w": torch.ones(1)}}, "w"),
        ("fedprox", {"params": {"w": torch.ones(3)}, "teacher_params": {}}, "w"),
        ("fedprox", {"params": {}, "teacher_params": {}}, "params"),
        ("fedavg", {"labels": torch.tensor([0.5, 1.0, 2.0])}, "labels"),
        ("fedavg", {"counts": [1, 1, 1, float("nan")]}, "counts"),
    ],
)
def test_other_things_that_do_not_fit_are_named_too(method, given, named):
    assert re.search(named, message(method, **given))


def test_counts_may_be_a_list_an_array_or_a_tensor():
    lists = get_method("fedlc").loss(logits=LOGITS, labels=LABELS, counts=[3, 0, 1, 2])
    tensors = get_method("fedlc").loss(logits=LOGITS, labels=LABELS, counts=torch.tensor([3, 0, 1, 2]))
    arrays = get_method("fedlc").loss(logits=LOGITS, labels=LABELS, counts=torch.tensor([3, 0, 1, 2]).numpy())
    assert lists == tensors == arrays


def test_without_counts_every_class_is_present_alike():
    # FedLC with equal counts shifts all logits alike: plain cross-entropy, ln 4 at equal logits.
    assert float(get_method("fedlc").loss(logits=LOGITS, labels=LABELS)) == pytest.approx(1.3862944)


def test_counts_that_lack_a_label_are_recognised_as_another_clients():
    told = message("fedlc", counts=[0, 1, 1, 1], labels=torch.tensor([0, 2, 3]))
    assert told == "a label is 0, but counts has none of that class: are they another client's counts?"
