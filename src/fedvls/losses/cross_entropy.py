"""Cross-entropy and its calibrations by the client's label statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from .calibration import LogPrior, Margin, Restriction, SoftenedLogPrior
from .masking import exclude
from .term import FLOOR, LossInputs, Table, Term, full_precision, term
from .trust import trust_in_teacher


@dataclass(frozen=True)
class CrossEntropy:
    """mean_i -log softmax(a_i)_{y_i},  a_ic = s_c z_ic + r_i b_c.

    scale: s, 1 where there is none; shift: b, 0 where there is none; r_i = 1, and with `trusted` the probability the
    teacher gives sample i's label. A value, so that `fedvls.kernels` can tell what there is to compute.
    """

    shift: Table | None = None
    scale: Table | None = None
    trusted: bool = False

    def __call__(self, inputs: LossInputs) -> Tensor:
        logits = full_precision(inputs.logits)
        if self.scale is not None:
            logits = inputs.client.table(self.scale).to(logits.dtype).unsqueeze(-2) * logits
        if self.shift is not None:
            shift = inputs.client.table(self.shift).to(logits.dtype).unsqueeze(-2)
            logits = logits + (shift * trust_in_teacher(inputs).unsqueeze(-1) if self.trusted else shift)
        picked = logits.log_softmax(-1).gather(-1, inputs.labels.unsqueeze(-1)).squeeze(-1)
        return inputs.over_batch(-picked)


def cross_entropy() -> Term:
    """CE(z, y) = mean_i -log softmax(z_i)_{y_i}."""
    return term("cross_entropy")(CrossEntropy())


def calibrated_cross_entropy(floor: float = FLOOR) -> Term:
    """L_cal = CE(z + log(p + floor), y)  (FedVLS eq. 2).

    floor = 0 is the printed equation: vacant classes leave the softmax. The released program uses 1e-9, which shifts a
    vacant logit by -20.7 and changes the loss by about 1e-9.
    """
    return term("calibrated_cross_entropy")(CrossEntropy(LogPrior(floor)))


def softened_cross_entropy(
    strength: float, smoothing: float, vacant: Literal["rare", "average"] = "rare", trusted: bool = False
) -> Term:
    """CE(z + a_i * log w, y): a calibration between none and L_cal's.

    "rare":     w = (1 - smoothing) p + smoothing / C =: p'. A vacant class stays in the softmax with smoothing / C.
    "average":  w_c = p'(c) / mean of p' over the present classes, and 1 for vacant ones: present classes are calibrated
                against each other, and a vacant class weighs as much as an average present one.
    a_i = strength, and with `trusted` times the probability the teacher gives sample i's label.
    strength = 0 and smoothing = 1 are plain cross-entropy; strength = 1 and smoothing -> 0 is L_cal where vacant
    classes are rare or there are none. With L_cal a client with one class learns nothing from its labels: its softmax
    has no rival. Here vacant classes remain rivals.
    """
    shift = SoftenedLogPrior(strength, smoothing, vacant)
    needs = ["teacher_logits"] if trusted else []
    return term("softened_cross_entropy", *needs)(CrossEntropy(shift, trusted=trusted))


def margin_cross_entropy(tau: float, true_class: Literal["kept", "left-out"] = "kept") -> Term:
    """FedLC: CE(z - tau * n^(-1/4), y); a vacant class has an infinite margin and leaves the softmax.

    "left-out" is the original paper's equation, whose denominator runs over c != y: unbounded below, kept for study.
    """
    margin = Margin(tau)

    def without_true_class(inputs: LossInputs) -> Tensor:
        logits = full_precision(inputs.logits)
        shifted = logits + inputs.client.table(margin).to(logits.dtype).unsqueeze(-2)
        label = shifted.gather(-1, inputs.labels.unsqueeze(-1)).squeeze(-1)
        rivals = ~inputs.is_label & ~inputs.client.vacant.unsqueeze(-2)
        others = exclude(shifted, rivals).logsumexp(-1)
        return inputs.over_batch(torch.where(rivals.any(-1), others - label, 0.0))

    return term("margin_cross_entropy")(CrossEntropy(margin) if true_class == "kept" else without_true_class)


def restricted_cross_entropy(alpha: float, scale: Literal["hard", "soft"] = "hard") -> Term:
    """FedRS: CE(s * z, y), s_c = 1 for present and alpha for vacant classes.

    "soft" is s_c = alpha + (1 - alpha) * n_c / max n, the form of the method's own code.
    """
    return term("restricted_cross_entropy")(CrossEntropy(scale=Restriction(alpha, scale)))
