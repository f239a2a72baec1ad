"""Decorrelation of features inside each class (FedMR)."""

from __future__ import annotations

import torch
from torch import Tensor

from .term import LossInputs, Term, full_precision, term

VARIANCE_FLOOR = 1e-8


def intra_class_decorrelation() -> Term:
    """L_intra = sum_c a_c / n, over classes with at least two samples in the batch, n the samples of those classes.

    a_c is the mean squared off-diagonal entry of M_c = Q_c^T Q_c, Q_c the class's features, standardised per dimension
    with the unbiased variance + 1e-8. The d x d matrices are never built: sum_jk M_jk^2 = ||Q Q^T||_F^2, a B x B
    matrix for all classes at once.
    """

    @term("intra_class_decorrelation", "features")
    def value(inputs: LossInputs) -> Tensor:
        features = full_precision(inputs.given("features"))
        member = (inputs.is_label & inputs.sample_mask.unsqueeze(-1)).to(features.dtype)  # [..., B, C]
        per_class = member.transpose(-1, -2)
        size = per_class.sum(-1, keepdim=True)  # [..., C, 1]
        paired = size >= 2
        mean = per_class @ features / size.clamp(min=1)
        centred = features - member @ mean
        variance = per_class @ centred.square() / (size - 1).clamp(min=1)
        used = member @ paired.to(features.dtype)  # [..., B, 1]: the sample's class has a pair
        scaled = used * centred / (VARIANCE_FLOOR + member @ variance).sqrt()
        same = member @ per_class
        products = (scaled @ scaled.transpose(-1, -2) * same).square().sum((-1, -2))
        diagonal = (per_class @ scaled.square()).square().sum((-1, -2))
        dimensions = features.shape[-1]
        total = (products - diagonal) / max(dimensions * (dimensions - 1), 1)
        samples = used.sum((-1, -2))
        return torch.where(samples > 0, total / samples.clamp(min=1), total.new_zeros(()))

    return value
