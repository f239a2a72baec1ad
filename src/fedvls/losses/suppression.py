"""Suppression of non-label logits: the third term of FedVLS."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from torch import Tensor
from torch.nn.functional import softplus

from .masking import exclude
from .term import FLOOR, LossInputs, Term, full_precision, term

Suppression = Literal["released", "printed", "none"]
Form = Literal["released", "printed", "bounded"]


@dataclass(frozen=True)
class LogitSuppression:
    """S in one of its forms (see `logit_suppression`). A value, so that `fedvls.kernels` can tell what to compute."""

    form: Form

    def __call__(self, inputs: LossInputs) -> Tensor:
        logits, real = full_precision(inputs.logits), inputs.sample_mask.unsqueeze(-1)
        prior = inputs.client.prior.to(logits.dtype)
        not_label = ~inputs.is_label
        log_batch = inputs.real.to(logits.dtype).log().unsqueeze(-1)
        if self.form != "released":
            counted = not_label & real
            terms = logits
        else:
            counted = real.expand(logits.shape)
            log_prior = inputs.client.log_prior.to(logits.dtype).unsqueeze(-2)
            terms = (logits - log_prior + log_uniform(logits.shape[-1])) * not_label
        per_class = exclude(terms, counted).logsumexp(-2) - log_batch
        if self.form == "bounded":
            per_class = softplus(per_class)
        return (prior * per_class.masked_fill(~counted.any(-2), 0.0)).sum(-1)


def log_uniform(classes: int) -> float:
    """log(1/C + 1e-9)."""
    return math.log(1.0 / classes + FLOOR)


def logit_suppression(form: Form = "released") -> Term:
    """S = sum_c p(c) * log( (1/B) sum_i ... ), pushing down the logits of classes a sample does not have (eq. 4, 5).

    "printed":   the inner sum is over samples with y_i != c of exp(z_ic). **Unbounded below**: shifting all
                 present-class logits by -s lowers it by s for ever, while the other two terms do not notice.
    "released":  u_ic = (z_ic - log(p(c)+1e-9) + log(1/C+1e-9)) * [y_i != c], the inner sum over *all* samples of
                 exp(u_ic). The product leaves exp(0) = 1 for label entries: in a batch that has the class, a floor
                 that stops the descent.
    "bounded":   as printed, with log(1 + x) for log(x): never below 0 (not in the paper).
    A class for which the batch has no non-label sample contributes 0; a vacant class has weight 0.
    """
    return term("logit_suppression")(LogitSuppression(form))
