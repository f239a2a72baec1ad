"""Keeping the local weights near the ones the server sent."""

from __future__ import annotations

import torch
from torch import Tensor

from .term import LossInputs, Term, full_precision, term


def proximal() -> Term:
    """1/2 * sum over trainable tensors of ||w - w_received||^2 (FedProx); BatchNorm statistics have no part in it.

    A sum of squares, not a squared norm: its gradient exists where w = w_received.
    """

    @term("proximal", "params", "teacher_params", is_pull=True)
    def value(inputs: LossInputs) -> Tensor:
        assert inputs.params is not None
        assert inputs.teacher_params is not None
        leading = inputs.labels.dim() - 1
        squares = []
        for name, now in inputs.params.items():
            moved = full_precision(now) - full_precision(inputs.teacher_params[name].detach())
            squares.append(moved.square().reshape(*moved.shape[:leading], -1).sum(-1))
        return 0.5 * torch.stack(squares).sum(0)

    return value
