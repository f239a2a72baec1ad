"""Value and gradient of an objective in one launch, where autograd takes up to seventy.

Covered are sums of terms of these kinds, at most one of each:

    cross-entropy, plain or calibrated      all there is in FedAvg, FedLC, FedRS, in FedProx and FedDyn (whose proximal
                                            term is over parameters and stays apart), and in the methods that change
                                            step or server only
    distillation over some classes          with it FedKD, FedEKD, FedNTD, FedLMD
    suppression of logits                   with it FedVLS, its ablations and combinations, and `fedvls-soft`

Autograd's remain FedLC without the true class, FedDKD, what looks at features (MOON, FedMR, FPL), and users' own terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor

from ..losses.cross_entropy import CrossEntropy
from ..losses.distillation import Distillation, vacant
from ..losses.suppression import LogitSuppression, log_uniform
from ..losses.term import LossInputs, Term
from .slopes import slopes
from .tiles import power

MOST_CLASSES = 256
KNOWN = frozenset({CrossEntropy, Distillation, LogitSuppression})
Kind = TypeVar("Kind")


def fused(terms: Sequence[Term]) -> FusedObjective | None:
    """These terms in one kernel, or None where one is of another kind or two are of the same."""
    kinds = {type(term.function) for term in terms}
    return FusedObjective(terms) if kinds <= KNOWN and len(kinds) == len(terms) else None


class FusedObjective:
    """Terms of different kinds and their weights; see `slopes.slopes` for the formulas."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self.entropy, self.entropy_weight = _of_kind(terms, CrossEntropy())
        self.teaching, self.teaching_weight = _of_kind(terms, Distillation(vacant, vacant))
        self.suppression, self.suppression_weight = _of_kind(terms, LogitSuppression("released"))

    def takes(self, logits: Tensor) -> bool:
        """Whether the kernel is for such logits."""
        return logits.shape[-1] <= MOST_CLASSES and logits.dtype in (torch.float32, torch.float64)

    def __call__(self, inputs: LossInputs, logits: Tensor) -> tuple[Tensor, Tensor]:
        """The value per leading index of logits `[..., B, C]`, and the gradient with respect to them."""
        *leading, batch, classes = logits.shape
        client, unread = inputs.client, logits
        entropy, teaching = self.entropy, self.teaching

        def per_client(table: Tensor) -> Tensor:
            return table.expand(*leading, classes).contiguous()

        shift, scale = (
            unread if made is None else per_client(client.table(made)) for made in (entropy.shift, entropy.scale)
        )
        heard = spoken = prior = log_prior = unread
        if self.teaching_weight != 0:
            heard, spoken = (per_client(client.table(made)) for made in (teaching.heard, teaching.spoken))
        if self.suppression_weight != 0:
            prior, log_prior = per_client(client.prior), per_client(client.log_prior)
        teacher = unread if inputs.teacher_logits is None else inputs.teacher_logits.contiguous()
        loss, slope = logits.new_empty(leading), torch.empty_like(logits, memory_format=torch.contiguous_format)
        columns = power(classes)
        slopes[(loss.numel(),)](
            logits.contiguous(), inputs.labels.contiguous(), inputs.sample_mask.contiguous(), teacher,
            shift, scale, heard, spoken, prior, log_prior, loss, slope, batch, C=classes,
            CROSS_ENTROPY=self.entropy_weight, SHIFT=entropy.shift is not None, SCALE=entropy.scale is not None,
            TRUSTED_SHIFT=entropy.trusted,
            DISTILLATION=self.teaching_weight, TEMPERATURE=float(teaching.temperature),
            WITHOUT_LABEL=teaching.without_label, TRUSTED_TEACHER=teaching.trusted,
            SUPPRESSION=self.suppression_weight, FORM=self.suppression.form, LOG_UNIFORM=log_uniform(classes),
            BM=min(64, 4096 // columns), BC=columns, num_warps=8 if columns <= 32 else 16,
        )  # fmt: skip
        return loss, slope


def _of_kind(terms: Sequence[Term], otherwise: Kind) -> tuple[Kind, float]:
    """The function of that kind and its weight, 0 where there is none."""
    for term in terms:
        if type(term.function) is type(otherwise):
            return term.function, float(term.weight)
    return otherwise, 0.0
