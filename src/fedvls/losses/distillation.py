"""Distillation of the received global model, each over its own subset of the classes.

All are batch means of temperature^2 * KL(teacher || student), with softmaxes renormalised inside the subset. The
teacher carries no gradient (the engine computes it without one; here it is detached for anyone's own loop).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .masking import divergence_over, exclude
from .term import LossInputs, Term, full_precision, term
from .trust import trust_in_teacher


def _distillation(
    name: str, classes: Callable[[LossInputs], tuple[Tensor, Tensor]], temperature: float, trusted: bool = False
) -> Term:
    """KL over (teacher classes, student classes), each broadcastable to `[..., B, C]`."""

    @term(name, "teacher_logits")
    def value(inputs: LossInputs) -> Tensor:
        student, teacher = _student_and_teacher(inputs, temperature)
        divergence = divergence_over(teacher, student, *classes(inputs))
        if trusted:
            divergence = divergence * trust_in_teacher(inputs)
        return temperature**2 * inputs.over_batch(divergence)

    return value


def _student_and_teacher(inputs: LossInputs, temperature: float) -> tuple[Tensor, Tensor]:
    teacher = full_precision(inputs.given("teacher_logits").detach())
    return full_precision(inputs.logits) / temperature, teacher / temperature


def vacant_distillation(temperature: float = 1.0, trusted: bool = False) -> Term:
    """L_dis = mean_i KL(softmax_V(t_i) || softmax_V(z_i)), V the vacant classes  (FedVLS eq. 3).

    The printed equation has the opposite sign, which disagreement would minimise; the released program uses this one.
    Exactly 0 with fewer than two vacant classes. `trusted`: each sample counts with the probability the teacher gives
    its label (not in the paper).
    """

    def classes(inputs: LossInputs) -> tuple[Tensor, Tensor]:
        vacant = inputs.client.vacant.unsqueeze(-2)
        return vacant, vacant

    return _distillation("vacant_distillation", classes, temperature, trusted)


def existing_distillation(temperature: float = 1.0) -> Term:
    """FedEKD: the same over the classes the client has."""

    def classes(inputs: LossInputs) -> tuple[Tensor, Tensor]:
        present = ~inputs.client.vacant.unsqueeze(-2)
        return present, present

    return _distillation("existing_distillation", classes, temperature)


def full_distillation(temperature: float = 1.0) -> Term:
    """FedKD: over all classes."""

    def classes(inputs: LossInputs) -> tuple[Tensor, Tensor]:
        everything = torch.ones_like(inputs.client.vacant).unsqueeze(-2)
        return everything, everything

    return _distillation("full_distillation", classes, temperature)


def not_true_distillation(temperature: float = 1.0) -> Term:
    """FedNTD: over all classes but the sample's label."""

    def classes(inputs: LossInputs) -> tuple[Tensor, Tensor]:
        others = ~inputs.is_label
        return others, others

    return _distillation("not_true_distillation", classes, temperature)


def label_masked_distillation(temperature: float = 1.0) -> Term:
    """FedLMD: the teacher speaks of minority and vacant classes only, the student of all but the label.

    A sample for which no such class is left contributes 0 (the original code's -1000 mask lets it explode).
    """

    def classes(inputs: LossInputs) -> tuple[Tensor, Tensor]:
        others = ~inputs.is_label
        return others & ~inputs.client.majority.unsqueeze(-2), others

    return _distillation("label_masked_distillation", classes, temperature)


def target_distillation(temperature: float = 1.0) -> Term:
    """TCKD of decoupled distillation: KL between the pairs (p_y, 1 - p_y).

    log(1 - p_y) is logsumexp_{c != y} z - logsumexp z: never the logarithm of a difference.
    """

    @term("target_distillation", "teacher_logits")
    def value(inputs: LossInputs) -> Tensor:
        student, teacher = _student_and_teacher(inputs, temperature)
        log_s, log_q = _label_or_not(inputs, student), _label_or_not(inputs, teacher)
        return temperature**2 * inputs.over_batch((log_q.exp() * (log_q - log_s)).sum(-1))

    return value


def _label_or_not(inputs: LossInputs, logits: Tensor) -> Tensor:
    """(log p_y, log(1 - p_y)), `[..., B, 2]`."""
    label = logits.gather(-1, inputs.labels.unsqueeze(-1)).squeeze(-1)
    others = exclude(logits, ~inputs.is_label).logsumexp(-1)
    return torch.stack([label, others], -1) - logits.logsumexp(-1, keepdim=True)
