"""Contrast between the features of the received model and of the client's own last one (MOON)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, softplus

from .term import LossInputs, Term, full_precision, term


def model_contrast(tau: float = 0.5) -> Term:
    """mean_i -log( e^{s+/tau} / (e^{s+/tau} + e^{s-/tau}) ), s+ = cos(h, h_received), s- = cos(h, h_previous).

    0 at a client's first participation, when it has no previous model.
    """

    @term("model_contrast", "features", "teacher_features", "previous_features")
    def value(inputs: LossInputs) -> Tensor:
        own = full_precision(inputs.given("features"))
        toward, away = (
            cosine_similarity(own, full_precision(inputs.given(name).detach()), dim=-1, eps=1e-8)
            for name in ("teacher_features", "previous_features")
        )
        contrast = inputs.over_batch(softplus((away - toward) / tau))
        return torch.where(inputs.given("has_previous"), contrast, contrast.new_zeros(()))

    return value
