"""Half-precision logits, and objectives mapped over clients by torch.func."""

import pytest
import torch

from fedvls.losses import ClientStatistics, LossInputs

COUNTS = [6, 0, 3, 0, 1]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_give_a_float32_loss(every_method, draw_batch, dtype):
    batch = draw_batch(COUNTS, 8, dtype=torch.float32)
    names = ("logits", "teacher_logits", "features", "teacher_features", "previous_features")
    half = {**batch, **{name: batch[name].detach().to(dtype) for name in names}}
    loss = every_method.loss(**half)
    assert loss.dtype == torch.float32
    # The loss itself adds no rounding: it is the float32 loss of the rounded logits, to the bit.
    rounded = {**half, **{name: half[name].float() for name in names}}
    assert torch.equal(loss, every_method.loss(**rounded))
    # bfloat16 keeps 8 significant bits: logits of about 3 are off by at most 2^-8 * 8.
    torch.testing.assert_close(loss, every_method.loss(**batch), rtol=0.05, atol=0.05)


def test_half_precision_gradients_are_finite_and_in_the_logits_type(every_method, draw_batch):
    batch = draw_batch(COUNTS, 8, dtype=torch.float32)
    logits = batch["logits"].detach().half().requires_grad_()
    every_method.loss(**{**batch, "logits": logits}).backward()
    assert logits.grad.dtype == torch.float16
    assert logits.grad.isfinite().all()


def test_no_gradient_reaches_what_the_server_sent(every_method, draw_batch):
    batch = draw_batch(COUNTS, 8)
    given = [batch[name] for name in ("teacher_logits", "teacher_features", "previous_features")]
    given += [*batch["teacher_params"].values(), batch["received"]["prototypes"]]
    for tensor in given:
        tensor.requires_grad_()
    every_method.loss(**batch).backward()
    assert all(tensor.grad is None for tensor in given)


@pytest.mark.parametrize("name", ["fedvls", "fedntd"])
def test_vmap_over_clients_equals_the_leading_axis(method_of, draw_batch, name):
    clients = [draw_batch(counts, 4, i) for i, counts in enumerate((COUNTS, [1, 2, 3, 4, 5], [0, 0, 0, 0, 7]))]
    stacked = [torch.stack([c[k].detach() for c in clients]) for k in ("logits", "labels", "counts", "teacher_logits")]
    mask = torch.tensor([[True] * 4, [True] * 2 + [False] * 2, [True] * 4])
    objective = method_of(name).objective

    def loss(logits, labels, counts, teacher_logits, mask):
        return objective(LossInputs(logits, labels, mask, ClientStatistics(counts), teacher_logits))

    mapped = torch.func.vmap(loss)(*stacked, mask)
    torch.testing.assert_close(mapped, loss(*stacked, mask))
    gradient = torch.func.vmap(torch.func.grad(loss))(*stacked, mask)
    logits = stacked[0].requires_grad_()
    (expected,) = torch.autograd.grad(loss(logits, *stacked[1:], mask).sum(), logits)
    torch.testing.assert_close(gradient, expected)
