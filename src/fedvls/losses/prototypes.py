"""Contrast and consistency with the server's class prototypes (FPL).

`received` holds prototypes[C, K, d] and prototype_mask[C, K]. Before the server has any, both terms are 0. A sample
whose class has no prototype contributes 0 and still counts in the mean over the batch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .masking import exclude
from .term import LossInputs, Term, full_precision, term


def prototype_contrast(tau: float = 0.02) -> Term:
    """CPCL: mean_i [ logsumexp over all prototypes - logsumexp over the label's own ] of cos(f_i, p) / tau."""

    @term("prototype_contrast", "features", "received")
    def value(inputs: LossInputs) -> Tensor:
        if "prototypes" not in inputs.received:
            return _nothing(inputs)
        features = full_precision(inputs.given("features"))
        prototypes, mask = _prototypes(inputs, features)
        unit = torch.nn.functional.normalize(prototypes.flatten(0, 1), dim=-1, eps=1e-8)
        cosine = torch.nn.functional.normalize(features, dim=-1, eps=1e-8) @ unit.transpose(0, 1) / tau
        known = mask.flatten()
        own = inputs.is_label.repeat_interleave(mask.shape[1], dim=-1) & known
        per_sample = exclude(cosine, known.expand_as(cosine)).logsumexp(-1) - exclude(cosine, own).logsumexp(-1)
        return inputs.over_batch(torch.where(own.any(-1), per_sample, 0.0))

    return value


def prototype_consistency() -> Term:
    """UPCR: mean_i of the mean over dimensions of (f_i - u_{y_i})^2, u_c the mean of the class's prototypes."""

    @term("prototype_consistency", "features", "received")
    def value(inputs: LossInputs) -> Tensor:
        if "prototypes" not in inputs.received:
            return _nothing(inputs)
        features = full_precision(inputs.given("features"))
        prototypes, mask = _prototypes(inputs, features)
        weight = mask.to(features.dtype).unsqueeze(-1)
        centres = (prototypes * weight).sum(1) / weight.sum(1).clamp(min=1)
        distance = (features - centres[inputs.labels]).square().mean(-1)
        return inputs.over_batch(torch.where(mask.any(-1)[inputs.labels], distance, 0.0))

    return value


def _prototypes(inputs: LossInputs, like: Tensor) -> tuple[Tensor, Tensor]:
    return inputs.received["prototypes"].detach().to(like.dtype), inputs.received["prototype_mask"]


def _nothing(inputs: LossInputs) -> Tensor:
    """Zero, per leading index, that keeps the graph."""
    return 0.0 * full_precision(inputs.logits).sum((-1, -2))
