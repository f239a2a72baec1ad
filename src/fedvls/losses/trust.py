"""How far the received model is to be believed."""

from __future__ import annotations

from torch import Tensor

from .term import LossInputs, full_precision


def trust_in_teacher(inputs: LossInputs) -> Tensor:
    """The probability that the teacher gives each sample's label, `[..., B]`: what it shows to know where the client
    can check. About 1 / C in the first rounds, so that a teacher that knows nothing has no say."""
    teacher = full_precision(inputs.given("teacher_logits").detach())
    return teacher.log_softmax(-1).gather(-1, inputs.labels.unsqueeze(-1)).squeeze(-1).exp()
