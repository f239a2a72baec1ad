"""Softmax and divergence over a subset of the classes, without index selection.

Excluded entries take a huge negative *finite* number: exp() of it is exactly 0, as for minus infinity, but a row with
no admitted class stays finite, so that it can be masked out later without NaN gradients.
"""

from __future__ import annotations

from torch import Tensor

EXCLUDED = -1e30


def exclude(values: Tensor, admitted: Tensor) -> Tensor:
    """`values` where admitted, and a number whose exponential is 0 elsewhere."""
    return values.masked_fill(~admitted, EXCLUDED)


def log_softmax_over(logits: Tensor, admitted: Tensor) -> Tensor:
    """log of the softmax renormalised inside `admitted[..., C]`; meaningless outside it."""
    return exclude(logits, admitted).log_softmax(-1)


def divergence_over(teacher: Tensor, student: Tensor, teacher_classes: Tensor, student_classes: Tensor) -> Tensor:
    """KL(softmax of teacher inside its classes || softmax of student inside its classes), summed over classes.

    `teacher_classes` must lie inside `student_classes`. A row without any teacher class gives 0.
    """
    log_q = log_softmax_over(teacher, teacher_classes)
    log_s = log_softmax_over(student, student_classes)
    return (log_q.exp() * (log_q - log_s)).masked_fill(~teacher_classes, 0.0).sum(-1)
