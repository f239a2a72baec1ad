"""Cross-entropy and its calibrations by the client's label statistics."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from .masking import exclude
from .term import FLOOR, LossInputs, Term, full_precision, term
from .trust import trust_in_teacher


def _negative_log_likelihood(inputs: LossInputs, logits: Tensor) -> Tensor:
    """Batch mean of -log softmax(logits)_y."""
    picked = logits.log_softmax(-1).gather(-1, inputs.labels.unsqueeze(-1)).squeeze(-1)
    return inputs.over_batch(-picked)


def cross_entropy() -> Term:
    """CE(z, y) = mean_i -log softmax(z_i)_{y_i}."""

    @term("cross_entropy")
    def value(inputs: LossInputs) -> Tensor:
        return _negative_log_likelihood(inputs, full_precision(inputs.logits))

    return value


def calibrated_cross_entropy(floor: float = FLOOR) -> Term:
    """L_cal = CE(z + log(p + floor), y)  (FedVLS eq. 2).

    floor = 0 is the printed equation: vacant classes leave the softmax. The released program uses 1e-9, which shifts a
    vacant logit by -20.7 and changes the loss by about 1e-9.
    """

    @term("calibrated_cross_entropy")
    def value(inputs: LossInputs) -> Tensor:
        logits, client = full_precision(inputs.logits), inputs.client
        prior = client.prior.to(logits.dtype).unsqueeze(-2)
        if floor == FLOOR:  # known once, not computed in every step
            return _negative_log_likelihood(inputs, logits + client.log_prior.to(logits.dtype).unsqueeze(-2))
        if floor > 0:
            return _negative_log_likelihood(inputs, logits + (prior + floor).log())
        present = ~client.vacant.unsqueeze(-2)
        log_prior = torch.where(present, prior, 1.0).log()
        return _negative_log_likelihood(inputs, exclude(logits + log_prior, present))

    return value


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

    @term("softened_cross_entropy", *(["teacher_logits"] if trusted else []))
    def value(inputs: LossInputs) -> Tensor:
        logits, client = full_precision(inputs.logits), inputs.client
        weights = (1 - smoothing) * client.prior.to(logits.dtype) + smoothing / logits.shape[-1] + FLOOR
        if vacant == "average":
            present = (~client.vacant).to(logits.dtype)
            mean = (weights * present).sum(-1, keepdim=True) / present.sum(-1, keepdim=True)
            weights = (weights / mean).masked_fill(client.vacant, 1.0)
        shift = strength * weights.log().unsqueeze(-2)
        if trusted:
            shift = shift * trust_in_teacher(inputs).unsqueeze(-1)
        return _negative_log_likelihood(inputs, logits + shift)

    return value


def margin_cross_entropy(tau: float, true_class: Literal["kept", "left-out"] = "kept") -> Term:
    """FedLC: CE(z - tau * n^(-1/4), y); a vacant class has an infinite margin and leaves the softmax.

    "left-out" is the original paper's equation, whose denominator runs over c != y: unbounded below, kept for study.
    """

    @term("margin_cross_entropy")
    def value(inputs: LossInputs) -> Tensor:
        logits, present = full_precision(inputs.logits), ~inputs.client.vacant
        counts = torch.where(present, inputs.client.counts, 1).to(logits.dtype)
        shifted = exclude(logits - (tau * counts.pow(-0.25)).unsqueeze(-2), present.unsqueeze(-2))
        if true_class == "kept":
            return _negative_log_likelihood(inputs, shifted)
        label = shifted.gather(-1, inputs.labels.unsqueeze(-1)).squeeze(-1)
        rivals = ~inputs.is_label & present.unsqueeze(-2)
        others = exclude(shifted, rivals).logsumexp(-1)
        return inputs.over_batch(torch.where(rivals.any(-1), others - label, 0.0))

    return value


def restricted_cross_entropy(alpha: float, scale: Literal["hard", "soft"] = "hard") -> Term:
    """FedRS: CE(s * z, y), s_c = 1 for present and alpha for vacant classes.

    "soft" is s_c = alpha + (1 - alpha) * n_c / max n, the form of the method's own code.
    """

    @term("restricted_cross_entropy")
    def value(inputs: LossInputs) -> Tensor:
        logits, counts = full_precision(inputs.logits), inputs.client.counts
        if scale == "hard":
            share = (counts > 0).to(logits.dtype)
        else:
            share = counts.to(logits.dtype) / counts.amax(-1, keepdim=True)
        return _negative_log_likelihood(inputs, (alpha + (1 - alpha) * share).unsqueeze(-2) * logits)

    return value
