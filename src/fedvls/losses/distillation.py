"""Distillation of the received global model, each over its own subset of the classes.

All are batch means of temperature^2 * KL(teacher || student), with softmaxes renormalised inside the subset. The
teacher carries no gradient (the engine computes it without one; here it is detached for anyone's own loop).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .masking import divergence_over, exclude
from .term import ClientStatistics, LossInputs, Table, Term, full_precision, term
from .trust import trust_in_teacher


@dataclass(frozen=True)
class Distillation:
    """T^2 mean_i r_i KL(softmax of t_i / T inside the classes heard || softmax of z_i / T inside the classes spoken).

    heard, spoken: the classes teacher and student speak of, each without the label if `without_label`; the first must
    lie inside the second. r_i = 1, and with `trusted` the probability the teacher gives sample i's label. A value, so
    that `fedvls.kernels` can tell what there is to compute.
    """

    heard: Table
    spoken: Table
    temperature: float = 1.0
    without_label: bool = False
    trusted: bool = False

    def __call__(self, inputs: LossInputs) -> Tensor:
        student, teacher = _student_and_teacher(inputs, self.temperature)
        heard = self._classes(inputs, self.heard)
        spoken = heard if self.spoken is self.heard else self._classes(inputs, self.spoken)
        divergence = divergence_over(teacher, student, heard, spoken)
        if self.trusted:
            divergence = divergence * trust_in_teacher(inputs)
        return self.temperature**2 * inputs.over_batch(divergence)

    def hears(self, client: ClientStatistics) -> Tensor:
        """Whether there is anything to agree on: over one class both say 1, whatever the logits."""
        certain = 1 if self.spoken is self.heard and not self.without_label else 0
        return client.table(self.heard).sum(-1) > certain

    def _classes(self, inputs: LossInputs, table: Table) -> Tensor:
        own = inputs.client.table(table).unsqueeze(-2)
        return own & ~inputs.is_label if self.without_label else own


def _student_and_teacher(inputs: LossInputs, temperature: float) -> tuple[Tensor, Tensor]:
    teacher = full_precision(inputs.given("teacher_logits").detach())
    return full_precision(inputs.logits) / temperature, teacher / temperature


def vacant(client: ClientStatistics) -> Tensor:
    """The classes the client has no sample of."""
    return client.vacant


def present(client: ClientStatistics) -> Tensor:
    """The classes it has samples of."""
    return ~client.vacant


def minority(client: ClientStatistics) -> Tensor:
    """The classes it has few samples of, or none."""
    return ~client.majority


def every(client: ClientStatistics) -> Tensor:
    """All classes."""
    return torch.ones_like(client.vacant)


def vacant_distillation(temperature: float = 1.0, trusted: bool = False) -> Term:
    """L_dis = mean_i KL(softmax_V(t_i) || softmax_V(z_i)), V the vacant classes  (FedVLS eq. 3).

    The printed equation has the opposite sign, which disagreement would minimise; the released program uses this one.
    Exactly 0 with fewer than two vacant classes. `trusted`: each sample counts with the probability the teacher gives
    its label (not in the paper).
    """
    return _term("vacant_distillation", Distillation(vacant, vacant, temperature, trusted=trusted))


def existing_distillation(temperature: float = 1.0) -> Term:
    """FedEKD: the same over the classes the client has."""
    return _term("existing_distillation", Distillation(present, present, temperature))


def full_distillation(temperature: float = 1.0) -> Term:
    """FedKD: over all classes."""
    return _term("full_distillation", Distillation(every, every, temperature))


def not_true_distillation(temperature: float = 1.0) -> Term:
    """FedNTD: over all classes but the sample's label."""
    return _term("not_true_distillation", Distillation(every, every, temperature, without_label=True))


def label_masked_distillation(temperature: float = 1.0) -> Term:
    """FedLMD: the teacher speaks of minority and vacant classes only, the student of all but the label.

    A sample for which no such class is left contributes 0 (the original code's -1000 mask lets it explode).
    """
    return _term("label_masked_distillation", Distillation(minority, every, temperature, without_label=True))


def _term(name: str, function: Distillation) -> Term:
    return term(name, "teacher_logits", hears=function.hears)(function)


def target_distillation(temperature: float = 1.0) -> Term:
    """TCKD of decoupled distillation: KL between the pairs (p_y, 1 - p_y).

    log(1 - p_y) is logsumexp_{c != y} z - logsumexp z: never the logarithm of a difference.
    """

    @term("target_distillation", "teacher_logits")
    def value(inputs: LossInputs) -> Tensor:
        student, teacher = _student_and_teacher(inputs, temperature)
        log_s, log_q = _label_or_not(inputs, student), _label_or_not(inputs, teacher)
        return temperature**2 * inputs.over_batch((log_q.exp() * (log_q - log_s)).sum(-1))

    return value


def _label_or_not(inputs: LossInputs, logits: Tensor) -> Tensor:
    """(log p_y, log(1 - p_y)), `[..., B, 2]`."""
    label = logits.gather(-1, inputs.labels.unsqueeze(-1)).squeeze(-1)
    others = exclude(logits, ~inputs.is_label).logsumexp(-1)
    return torch.stack([label, others], -1) - logits.logsumexp(-1, keepdim=True)
