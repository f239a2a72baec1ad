"""The pull toward the received weights."""

import torch

from fedvls.losses import proximal


def test_the_pull_is_exactly_zero_at_the_received_weights(method_of, draw_batch):
    batch = draw_batch([6, 0, 3], 4)
    here = {name: value.clone().requires_grad_() for name, value in batch["teacher_params"].items()}
    loss = method_of("fedprox", mu=1e6).loss(**{**batch, "params": here})
    for gradient in torch.autograd.grad(loss, list(here.values())):
        assert (gradient == 0).all()  # a squared norm would give NaN here


def test_the_pull_is_mu_times_the_distance(method_of, draw_batch):
    batch = draw_batch([6, 0, 3], 4)
    loss = method_of("fedprox", mu=0.25).loss(**batch)
    found = torch.autograd.grad(loss, list(batch["params"].values()))
    for (name, here), gradient in zip(batch["params"].items(), found, strict=True):
        torch.testing.assert_close(gradient, 0.25 * (here - batch["teacher_params"][name]).detach())


def test_half_precision_weights_are_compared_in_float32(draw_batch, method_of, parts):
    # 2^-7 is the bfloat16 step above 1; sums of 1024 squares 2^-14 need more than bfloat16's 8 bits.
    batch = draw_batch([6, 0, 3], 4, dtype=torch.float32)
    received = {"w": torch.ones(1024, dtype=torch.bfloat16)}
    here = {"w": received["w"] + 2**-7}
    value = parts(method_of("fedprox"), {**batch, "params": here, "teacher_params": received})["proximal"]
    assert value.dtype == torch.float32
    assert float(value) == 0.5 * 1024 * 2**-14


def test_it_asks_for_both_sets_of_weights_and_for_no_teacher_run():
    assert proximal().needs == {"params", "teacher_params"}
