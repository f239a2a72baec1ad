"""The loss terms: pure tensor functions that add up to objectives."""

from .contrast import model_contrast
from .cross_entropy import (
    calibrated_cross_entropy,
    cross_entropy,
    margin_cross_entropy,
    restricted_cross_entropy,
    softened_cross_entropy,
)
from .decorrelation import intra_class_decorrelation
from .distillation import (
    existing_distillation,
    full_distillation,
    label_masked_distillation,
    not_true_distillation,
    target_distillation,
    vacant_distillation,
)
from .prototypes import prototype_consistency, prototype_contrast
from .proximal import proximal
from .suppression import Suppression, logit_suppression
from .term import ClientStatistics, LossInputs, Objective, Term, full_precision, term

__all__ = [
    "ClientStatistics",
    "LossInputs",
    "Objective",
    "Suppression",
    "Term",
    "calibrated_cross_entropy",
    "cross_entropy",
    "existing_distillation",
    "full_distillation",
    "full_precision",
    "intra_class_decorrelation",
    "label_masked_distillation",
    "logit_suppression",
    "margin_cross_entropy",
    "model_contrast",
    "not_true_distillation",
    "prototype_consistency",
    "prototype_contrast",
    "proximal",
    "restricted_cross_entropy",
    "softened_cross_entropy",
    "target_distillation",
    "term",
    "vacant_distillation",
]
