"""Value and slope of an objective in one launch."""

from __future__ import annotations

import torch
from torch import Tensor

from ..losses.suppression import log_uniform
from ..losses.term import LossInputs
from .slopes import slopes
from .terms import Known
from .tiles import power

MOST_CLASSES = 256


class FusedObjective:
    """`WrittenOut` by a kernel, a program for each client."""

    def __init__(self, known: Known) -> None:
        self.known = known

    def takes(self, logits: Tensor) -> bool:
        return logits.shape[-1] <= MOST_CLASSES and logits.dtype in (torch.float32, torch.float64)

    def __call__(self, inputs: LossInputs, logits: Tensor) -> tuple[Tensor, Tensor]:
        *leading, batch, classes = logits.shape
        client, unread = inputs.client, logits
        entropy, teaching, suppression = self.known.entropy, self.known.teaching, self.known.suppression

        def per_client(table: Tensor) -> Tensor:
            return table.expand(*leading, classes).contiguous()

        shift, scale = (
            unread if made is None else per_client(client.table(made)) for made in (entropy.shift, entropy.scale)
        )
        heard = spoken = prior = log_prior = unread
        if self.known.teaching_weight != 0:
            heard, spoken = (per_client(client.table(made)) for made in (teaching.heard, teaching.spoken))
        if self.known.suppression_weight != 0:
            prior, log_prior = per_client(client.prior), per_client(client.log_prior)
        teacher = unread if inputs.teacher_logits is None else inputs.teacher_logits.contiguous()
        loss, slope = logits.new_empty(leading), torch.empty_like(logits, memory_format=torch.contiguous_format)
        columns = power(classes)
        slopes[(loss.numel(),)](
            logits.contiguous(), inputs.labels.contiguous(), inputs.sample_mask.contiguous(), teacher,
            shift, scale, heard, spoken, prior, log_prior, loss, slope, batch, C=classes,
            CROSS_ENTROPY=self.known.entropy_weight, SHIFT=entropy.shift is not None, SCALE=entropy.scale is not None,
            TRUSTED_SHIFT=entropy.trusted,
            DISTILLATION=self.known.teaching_weight, TEMPERATURE=float(teaching.temperature),
            WITHOUT_LABEL=teaching.without_label, TRUSTED_TEACHER=teaching.trusted,
            SUPPRESSION=self.known.suppression_weight, FORM=suppression.form, LOG_UNIFORM=log_uniform(classes),
            BM=min(64, 4096 // columns), BC=columns, num_warps=8 if columns <= 32 else 16,
        )  # fmt: skip
        return loss, slope
