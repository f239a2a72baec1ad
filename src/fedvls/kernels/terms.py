"""Objectives whose value and slope are written out, so that nobody need ask autograd, which takes up to 114 operations.

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
from dataclasses import dataclass
from typing import Protocol, TypeVar

from torch import Tensor

from ..losses.cross_entropy import CrossEntropy
from ..losses.distillation import Distillation, vacant
from ..losses.suppression import LogitSuppression
from ..losses.term import LossInputs, Term

KINDS = frozenset({CrossEntropy, Distillation, LogitSuppression})
Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Known:
    """One term of each kind and its weight, 0 where there is none.

    With n real samples, a_i = s z_i + r_i b, q and p the softmaxes of t_i / T and z_i / T inside the classes heard and
    spoken, r_i the teacher's trust in sample i where it is asked for, and u_ic what `LogitSuppression` sums over the
    samples:
        loss  = mean_i -log softmax(a_i)_y           slope_ic = s_c (softmax(a_i)_c - [c = y_i]) / n
              + T^2 mean_i r_i KL(q_i || p_i)                 + T r_i (p_ic sum(q_i) - q_ic) / n
              + sum_c prior_c (lse_i u_ic - log n)            + prior_c softmax_i(u_ic) [c != y_i]
    """

    entropy: CrossEntropy
    entropy_weight: float
    teaching: Distillation
    teaching_weight: float
    suppression: LogitSuppression
    suppression_weight: float


class WrittenOut(Protocol):
    """Value and slope of an objective by formula."""

    def takes(self, logits: Tensor) -> bool:
        """Whether it is for such logits."""

    def __call__(self, inputs: LossInputs, logits: Tensor) -> tuple[Tensor, Tensor]:
        """The value per leading index of logits `[..., B, C]`, and the gradient with respect to them, 0 for padding."""


def known(terms: Sequence[Term]) -> Known | None:
    """These terms, or None where one is of another kind or two are of the same."""
    kinds = {type(term.function) for term in terms}
    if not kinds <= KINDS or len(kinds) != len(terms):
        return None
    return Known(
        *_of_kind(terms, CrossEntropy()),
        *_of_kind(terms, Distillation(vacant, vacant)),
        *_of_kind(terms, LogitSuppression("released")),
    )


def _of_kind(terms: Sequence[Term], otherwise: Kind) -> tuple[Kind, float]:
    """The function of that kind and its weight, 0 where there is none."""
    for term in terms:
        if type(term.function) is type(otherwise):
            return term.function, float(term.weight)
    return otherwise, 0.0
