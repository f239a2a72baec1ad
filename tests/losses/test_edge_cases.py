"""Clients and batches at the edge of what the formulas allow, for every objective there is."""

import pytest
import torch

EDGES = {
    "no vacant class": ([6, 2, 3, 1, 1], [0, 2, 4]),
    "one vacant class": ([6, 2, 3, 0, 1], [0, 2, 4]),
    "one class at the client": ([7, 0, 0, 0, 0], [0, 0, 0]),
    "one class in the batch": ([6, 0, 3, 0, 1], [0, 0, 0]),
    "a batch of one sample": ([6, 0, 3, 0, 1], [2]),
    "one sample of one class": ([0, 1, 0, 0, 0], [1]),
    "all but one class in the majority": ([9, 9, 9, 9, 1], [4, 0]),
    "two classes": ([5, 3], [0, 1]),
    "two classes, one vacant": ([5, 0], [0, 0]),
    "one rare sample among a million": ([10**6, 1, 0], [1, 0]),
}


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [3.0, 1e4])
def test_loss_and_gradient_are_finite(every_method, draw_batch, gradients, edge, dtype, scale):
    counts, labels = EDGES[edge]
    batch = draw_batch(counts, len(labels), labels=labels, dtype=dtype, scale=scale)
    loss = every_method.loss(**batch)
    assert loss.shape == ()
    assert loss.dtype == dtype
    assert loss.isfinite()
    for gradient in gradients(loss, batch).values():
        assert gradient.isfinite().all()


def test_a_client_that_takes_part_for_the_first_time_has_less_to_learn_from(every_method, draw_batch, gradients):
    # No model of its own from before, and nothing from the server beside the model.
    batch = draw_batch([6, 0, 3, 0, 1], 4)
    loss = every_method.loss(**{**batch, "previous_features": None, "received": None})
    assert loss.isfinite()
    assert all(gradient.isfinite().all() for gradient in gradients(loss, batch).values())


@pytest.mark.parametrize("name", ["moon", "fpl"])
def test_the_first_participation_is_plain_cross_entropy_for_moon_and_fpl(method_of, draw_batch, name):
    batch = {**draw_batch([6, 0, 3, 0, 1], 4), "previous_features": None, "received": None}
    assert torch.equal(method_of(name).loss(**batch), method_of("fedavg").loss(**batch))


@pytest.mark.parametrize("edge", ["no vacant class", "one vacant class", "two classes, one vacant"])
def test_fewer_than_two_vacant_classes_have_nothing_to_distil(method_of, draw_batch, parts, edge):
    counts, labels = EDGES[edge]
    batch = draw_batch(counts, len(labels), labels=labels)
    value = parts(method_of("fedvls"), batch)["vacant_distillation"]
    assert value == 0
    assert (torch.autograd.grad(value, batch["logits"])[0] == 0).all()


def test_a_single_class_client_learns_from_the_vacant_classes_alone(method_of, draw_batch):
    counts, labels = EDGES["one class at the client"]
    batch = draw_batch(counts, len(labels), labels=labels)
    method = method_of("fedvls", suppression="printed")
    (gradient,) = torch.autograd.grad(method.loss(**batch), batch["logits"])
    assert (gradient[:, 0] == 0).all()
    assert (gradient[:, 1:] != 0).all()


def test_a_single_class_client_has_no_existing_distillation(method_of, draw_batch, parts):
    counts, labels = EDGES["one class at the client"]
    batch = draw_batch(counts, len(labels), labels=labels)
    assert parts(method_of("fedekd"), batch)["existing_distillation"] == 0


def test_two_classes_leave_fedntd_one_not_true_class_and_so_nothing(method_of, draw_batch, parts):
    counts, labels = EDGES["two classes"]
    batch = draw_batch(counts, len(labels), labels=labels)
    value = parts(method_of("fedntd"), batch)["not_true_distillation"]
    assert value == 0
    assert (torch.autograd.grad(value, batch["logits"])[0] == 0).all()


def test_fedlmd_counts_a_sample_without_teacher_classes_as_zero_and_in_the_mean(method_of, draw_batch, parts):
    # Label 4 is the only minority class: its sample has no class left; the other sample alone, halved, is the batch.
    counts, labels = EDGES["all but one class in the majority"]
    batch = draw_batch(counts, len(labels), labels=labels)
    alone = {**batch, **{k: batch[k][1:] for k in ("logits", "teacher_logits", "labels")}}
    both, one = (parts(method_of("fedlmd"), b)["label_masked_distillation"] for b in (batch, alone))
    torch.testing.assert_close(both, one / 2)
    assert (torch.autograd.grad(both, batch["logits"])[0][0] == 0).all()


@pytest.mark.parametrize("name", ["fedlc", "fedvls"])
def test_a_vacant_class_gets_no_gradient_from_calibration_that_removes_it(method_of, draw_batch, parts, name):
    values = {"suppression": "printed", "lam": 0.0} if name == "fedvls" else {}
    batch = draw_batch([6, 0, 3, 0, 1], 8)
    (gradient,) = torch.autograd.grad(method_of(name, **values).loss(**batch), batch["logits"])
    assert (gradient[:, [1, 3]] == 0).all()
    assert (gradient[:, [0, 2, 4]] != 0).any()
