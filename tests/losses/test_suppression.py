"""The printed suppression term has no floor; the released one has, where the batch holds the class."""

import math

import numpy as np
import pytest
import torch

COUNTS = [6, 0, 3, 0, 1]
LABELS = [0, 2, 4, 0, 0, 2]


@pytest.fixture
def batch(draw_batch):
    """A batch that holds every class the client has."""
    return draw_batch(COUNTS, len(LABELS), labels=LABELS)


def shifted(batch, by):
    return {**batch, "logits": (batch["logits"] + by).detach()}


def test_printed_suppression_falls_without_bound(method_of, parts, batch):
    method = method_of("fedvls", suppression="printed")
    for by in (50.0, 5e3, 5e8):
        before, after = (parts(method, shifted(batch, -s)) for s in (0.0, by))
        # The weights p(c) add up to 1, so the term follows a common shift exactly.
        assert float(before["logit_suppression"] - after["logit_suppression"]) == pytest.approx(by, rel=1e-12)


@pytest.mark.parametrize("suppression", ["printed", "released"])
def test_the_other_two_terms_do_not_notice_a_common_shift(method_of, parts, batch, suppression):
    method = method_of("fedvls", suppression=suppression)
    before, after = parts(method, batch), parts(method, shifted(batch, -50.0))
    for name in ("calibrated_cross_entropy", "vacant_distillation"):
        torch.testing.assert_close(after[name], before[name], rtol=0, atol=1e-11)


def test_released_suppression_has_a_floor(method_of, parts, batch):
    # Label entries leave exp(0) = 1 each: sum_c p(c) log(#{y = c} / B), approached from above.
    floor = 0.6 * math.log(3 / 6) + 0.3 * math.log(2 / 6) + 0.1 * math.log(1 / 6)
    method = method_of("fedvls")
    values = [float(parts(method, shifted(batch, -by))["logit_suppression"]) for by in (0, 5, 50, 5e3, 5e8)]
    assert values[0] > values[1] > floor
    assert values[2:] == pytest.approx([floor] * 3, abs=1e-12)


def test_the_floor_is_missing_for_a_present_class_the_batch_lacks(method_of, parts, draw_batch):
    # Class 4 (p = 0.1) has no label entry here, so its share follows the shift as in the printed form.
    batch = draw_batch(COUNTS, 4, labels=[0, 2, 0, 2])
    method = method_of("fedvls")
    far, farther = (parts(method, shifted(batch, -by))["logit_suppression"] for by in (1000.0, 2000.0))
    assert float(far - farther) == pytest.approx(0.1 * 1000, rel=1e-9)


@pytest.mark.parametrize("suppression", ["printed", "released"])
def test_suppression_pushes_down_what_is_not_the_label_of_a_present_class(method_of, parts, batch, suppression):
    value = parts(method_of("fedvls", suppression=suppression), batch)["logit_suppression"]
    (gradient,) = torch.autograd.grad(value, batch["logits"])
    is_label = torch.nn.functional.one_hot(batch["labels"], 5).bool()
    pushed = ~is_label & (batch["counts"] > 0)
    assert (gradient[pushed] > 0).all()
    assert (gradient[~pushed] == 0).all()


def descend(method, batch, steps, lr=0.5):
    """Sum of all logits after plain gradient descent on the logits themselves, at each step."""
    logits, sums = batch["logits"].detach().clone().requires_grad_(), []
    for _ in range(steps):
        loss = method.loss(**{**batch, "logits": logits})
        (gradient,) = torch.autograd.grad(loss, logits)
        with torch.no_grad():
            logits -= lr * gradient
        sums.append(float(logits.detach().sum()))
    return sums


def test_training_on_the_printed_objective_never_stops_falling(method_of, batch):
    # Softmax gradients sum to 0 over classes, those of the printed term to sum_c p(c) = 1: the sum of all logits falls
    # by lr every step, the thousandth as much as the first.
    falls = -np.diff(descend(method_of("fedvls", suppression="printed"), batch, 1000))
    np.testing.assert_allclose(falls, 0.5, atol=1e-9)


def test_training_on_the_released_objective_slows_down_like_any_softmax(method_of, batch):
    # At the printed weight of 1, so that the form alone makes the difference. Near the floor a fall of x shrinks the
    # gradient by exp(-x): the descent is that of log t, whose steps shrink as 1/t.
    falls = -np.diff(descend(method_of("fedvls", logit_weight=1.0), batch, 1000))
    assert 0 < falls[-1] < 0.02 * 0.5
    assert falls[-1] / falls[99] == pytest.approx(100 / 1000, rel=0.4)


@pytest.mark.parametrize(("suppression", "least", "most"), [("printed", 1 - 1e-9, 1 + 1e-9), ("released", 0, 0.05)])
def test_a_models_biases_run_away_under_the_printed_form_only(method_of, suppression, least, most):
    # Four balanced classes, a linear model: the printed term's gradient over all biases is sum_c p(c) = 1 for ever.
    random = torch.Generator().manual_seed(0)
    labels = torch.arange(4).repeat(8)
    x = torch.randn(32, 6, generator=random, dtype=torch.float64) + 2 * torch.nn.functional.one_hot(labels, 6)
    weight = torch.zeros(4, 6, dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    method = method_of("fedvls", suppression=suppression, logit_weight=1.0)
    for _ in range(1000):
        logits = x @ weight.T + bias
        loss = method.loss(logits=logits, labels=labels, counts=[8, 8, 8, 8], teacher_logits=logits)
        gradients = torch.autograd.grad(loss, (weight, bias))
        with torch.no_grad():
            for parameter, gradient in zip((weight, bias), gradients, strict=True):
                parameter -= 0.1 * gradient
    assert least <= float(gradients[1].sum()) <= most
