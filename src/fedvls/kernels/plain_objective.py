"""Value and slope of an objective in PyTorch's operations: where there is no Triton, on CPUs above all.

Classes come before samples here, `[..., C, B]`: a CPU takes a softmax over ten neighbouring numbers one by one, and one
over ten rows of samples many at a time, in a fifteenth of the time. Logits that lie so already (`lift/columns.py`) are
taken as they are, and the slope is given back so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import softplus

from ..losses.masking import EXCLUDED
from ..losses.suppression import log_uniform
from ..losses.term import ClientStatistics, LossInputs, Table
from ..losses.trust import trust_in_teacher
from .terms import Known


@dataclass(frozen=True)
class _Minibatch:
    """What the terms share."""

    logits: Tensor  # [..., C, B], and so the teacher's
    labels: Tensor  # [..., 1, B], and so padding and trust
    padding: Tensor
    real: Tensor  # [...]
    client: ClientStatistics
    teacher: Tensor | None
    trust: Tensor | None

    @cached_property
    def is_label(self) -> Tensor:
        """`[..., C, B]`."""
        return self.labels == torch.arange(self.logits.shape[-2], device=self.logits.device).unsqueeze(-1)

    def per_class(self, made: Table) -> Tensor:
        """A table of the clients, `[..., C, 1]`."""
        return self.client.table(made).unsqueeze(-1)


class PlainObjective:
    """`WrittenOut` in a third of the operations that autograd takes."""

    def __init__(self, known: Known) -> None:
        self.known = known

    def takes(self, logits: Tensor) -> bool:
        return logits.dtype in (torch.float32, torch.float64)

    def __call__(self, inputs: LossInputs, logits: Tensor) -> tuple[Tensor, Tensor]:
        known, dtype = self.known, logits.dtype
        teacher = inputs.teacher_logits
        trusted = known.entropy.trusted or known.teaching.trusted
        batch = _Minibatch(
            logits.mT.contiguous(),
            inputs.labels.unsqueeze(-2),
            inputs.padding.unsqueeze(-2),
            inputs.real.to(dtype),
            inputs.client,
            teacher.mT.to(dtype, memory_format=torch.contiguous_format) if teacher is not None else None,
            trust_in_teacher(inputs).to(dtype).unsqueeze(-2) if trusted else None,
        )
        losses, slope = self._of_samples(batch)
        loss = losses.masked_fill_(batch.padding, 0.0).sum((-2, -1)).div_(batch.real)
        slope.masked_fill_(batch.padding, 0.0).div_(batch.real.unsqueeze(-1).unsqueeze(-1))
        if known.suppression_weight != 0:
            value, pull = self._suppression(batch)
            loss.add_(value, alpha=known.suppression_weight)
            slope.add_(pull, alpha=known.suppression_weight)
        return loss, slope.mT

    def _of_samples(self, batch: _Minibatch) -> tuple[Tensor, Tensor]:
        """What is a mean over the samples: its values `[..., 1, B]` and slopes. A weight of 1 multiplies nothing."""
        weights = {self._entropy: self.known.entropy_weight, self._teaching: self.known.teaching_weight}
        parts = [(weight, *part(batch)) for part, weight in weights.items() if weight != 0]
        if not parts:
            return torch.zeros_like(batch.padding, dtype=batch.logits.dtype), torch.zeros_like(batch.logits)
        (weight, losses, slope), *others = parts
        if weight != 1:
            losses, slope = losses.mul_(weight), slope.mul_(weight)
        for weight, more, steeper in others:
            losses, slope = losses.add_(more, alpha=weight), slope.add_(steeper, alpha=weight)
        return losses, slope

    def _entropy(self, batch: _Minibatch) -> tuple[Tensor, Tensor]:
        entropy, a = self.known.entropy, batch.logits
        scale = None if entropy.scale is None else batch.per_class(entropy.scale).to(a.dtype)
        if scale is not None:
            a = a * scale
        if entropy.shift is not None:
            shift = batch.per_class(entropy.shift).to(a.dtype)
            a = a + (shift * batch.trust if entropy.trusted and batch.trust is not None else shift)
        log_likely = a.log_softmax(-2)
        losses = log_likely.gather(-2, batch.labels).neg_()
        slope = log_likely.exp_().scatter_(-2, batch.labels, -1.0, reduce="add")
        return losses, slope if scale is None else slope.mul_(scale)

    def _teaching(self, batch: _Minibatch) -> tuple[Tensor, Tensor]:
        teaching, z, t = self.known.teaching, batch.logits, batch.teacher
        assert t is not None, "the engine did not provide teacher_logits"
        if teaching.temperature != 1:
            z, t = z / teaching.temperature, t / teaching.temperature
        unheard = self._left_out(batch, teaching.heard)
        unspoken = unheard if teaching.spoken is teaching.heard else self._left_out(batch, teaching.spoken)
        log_q = t.masked_fill(unheard, EXCLUDED).log_softmax(-2)
        log_p = z.masked_fill(unspoken, EXCLUDED).log_softmax(-2)
        q = log_q.exp().masked_fill_(unheard, 0.0)
        losses = log_q.sub_(log_p).mul_(q).sum(-2, keepdim=True)
        slope = log_p.exp_().mul_(q.sum(-2, keepdim=True)).sub_(q)
        if teaching.temperature != 1:
            losses, slope = losses.mul_(teaching.temperature**2), slope.mul_(teaching.temperature)
        if teaching.trusted and batch.trust is not None:
            losses, slope = losses.mul_(batch.trust), slope.mul_(batch.trust)
        return losses, slope

    def _left_out(self, batch: _Minibatch, classes: Table) -> Tensor:
        """The classes that are not spoken of."""
        own = ~batch.per_class(classes)
        return own | batch.is_label if self.known.teaching.without_label else own

    def _suppression(self, batch: _Minibatch) -> tuple[Tensor, Tensor]:
        """The value `[...]` and the slope."""
        form, z, prior = self.known.suppression.form, batch.logits, batch.client.prior.to(batch.logits.dtype)
        if form == "released":
            offset = log_uniform(z.shape[-2]) - batch.client.log_prior.to(z.dtype)
            u = (z + offset.unsqueeze(-1)).masked_fill_(batch.is_label, 0.0)
        else:
            u = z.masked_fill(batch.is_label, EXCLUDED)
        u.masked_fill_(batch.padding, EXCLUDED)
        top = u.amax(-1)
        nobody = top == EXCLUDED  # no sample counts for the class
        parts = u.sub_(top.unsqueeze(-1)).exp_()
        total = parts.sum(-1)
        per_class = total.log().add_(top).sub_(batch.real.log().unsqueeze(-1))
        pull = (prior / total).masked_fill_(nobody, 0.0)
        if form == "bounded":
            pull = torch.ops.aten.softplus_backward(pull, per_class, 1.0, 20.0)
            per_class = softplus(per_class)
        value = per_class.mul_(prior).masked_fill_(nobody, 0.0).sum(-1)
        return value, parts.mul_(pull.unsqueeze(-1)).masked_fill_(batch.is_label, 0.0)
