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


def divergence_over(teacher: Tensor, student: Tensor, teacher_classes: Tensor, student_classes: Tensor) -> Tensor:
    """KL(softmax of teacher inside its classes || softmax of student inside its classes), summed over classes.

    `teacher_classes` must lie inside `student_classes`. A row without any teacher class gives 0.
    """
    unheard = ~teacher_classes
    log_q = teacher.masked_fill(unheard, EXCLUDED).log_softmax(-1)
    # The same mask is inverted once: on a GPU a step of a small model is as long as its list of operations.
    unspoken = unheard if student_classes is teacher_classes else ~student_classes
    log_s = student.masked_fill(unspoken, EXCLUDED).log_softmax(-1)
    return (log_q.exp() * (log_q - log_s)).masked_fill(unheard, 0.0).sum(-1)
