"""What a loss sees, and how losses add up to an objective.

Every loss is written over the trailing axes: with no leading axis it serves one client, with a leading client axis the
same lines train a whole cohort. It returns one number per leading index, in float32 or better.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from ..errors import UsageError
from ..numerics import full_precision as full_precision

Parameters = Mapping[str, Tensor]
Table = Callable[["ClientStatistics"], Tensor]
"""Numbers per class, `[..., C]`, that follow from a client's label statistics. Hashable: equal ones are one table."""
FLOOR = 1e-9


@dataclass(frozen=True)
class ClientStatistics:
    """Label statistics of a client: class counts (floating) over its *whole* local data, `counts[..., C]`."""

    counts: Tensor

    @cached_property
    def vacant(self) -> Tensor:
        """Classes the client has no sample of, `[..., C]`."""
        return self.counts == 0

    @cached_property
    def prior(self) -> Tensor:
        """p(c) = n_c / n, `[..., C]`."""
        return self.counts / self.counts.sum(-1, keepdim=True)

    @cached_property
    def log_prior(self) -> Tensor:
        """log(p(c) + 1e-9): finite for vacant classes too, `[..., C]`."""
        return (self.prior + FLOOR).log()

    @cached_property
    def majority(self) -> Tensor:
        """Classes with more samples than the mean over all classes, vacant ones included in the mean, `[..., C]`."""
        return self.counts > self.counts.mean(-1, keepdim=True)

    @cached_property
    def tables(self) -> dict[Table, Tensor]:
        """The tables asked for so far."""
        return {}

    def table(self, made: Table) -> Tensor:
        """`made(self)`, computed once, not in every step."""
        if made not in self.tables:
            self.tables[made] = made(self)
        return self.tables[made]


@dataclass(frozen=True)
class LossInputs:
    """One minibatch as a loss sees it. What no term `needs` is None.

    logits[..., B, C], labels[..., B], sample_mask[..., B] (False marks padding), teacher_logits[..., B, C] from the
    model the server sent, features[..., B, d] the classifier's input (teacher_features and previous_features: of the
    model received and of the one the client ended with last time), params and teacher_params the trainable parameters
    now and as received (each with the same leading axes), received what the server sent beside the model.
    """

    logits: Tensor
    labels: Tensor
    sample_mask: Tensor
    client: ClientStatistics
    teacher_logits: Tensor | None = None
    features: Tensor | None = None
    teacher_features: Tensor | None = None
    previous_features: Tensor | None = None
    has_previous: Tensor | None = None
    """Whether the client has trained before, per leading index."""
    params: Parameters | None = None
    teacher_params: Parameters | None = None
    received: Mapping[str, Tensor] = field(default_factory=dict)

    @cached_property
    def is_label(self) -> Tensor:
        """One-hot labels as booleans, `[..., B, C]`."""
        return self.labels.unsqueeze(-1) == torch.arange(self.logits.shape[-1], device=self.labels.device)

    def over_batch(self, values: Tensor) -> Tensor:
        """Mean of `values[..., B]` over the real samples of the batch."""
        return values.masked_fill(self.padding, 0.0).sum(-1) / self.real

    @cached_property
    def padding(self) -> Tensor:
        """Samples that are not real, `[..., B]`."""
        return ~self.sample_mask

    @cached_property
    def real(self) -> Tensor:
        """How many samples of the batch are real, and at least 1."""
        return self.sample_mask.sum(-1).clamp(min=1)

    def knowing(self, **values: Tensor) -> LossInputs:
        """These inputs, with `padding` or `real` as computed elsewhere for many minibatches at once."""
        vars(self).update(values)
        return self

    def given(self, name: str) -> Tensor:
        """A tensor that a term needs."""
        value = getattr(self, name)
        assert isinstance(value, Tensor), f"the engine did not provide {name}"
        return value


NEEDS = (
    "teacher_logits",
    "features",
    "teacher_features",
    "previous_features",
    "params",
    "teacher_params",
    "received",
)


@dataclass(frozen=True)
class Term:
    """One weighted summand: `weight * function(inputs)`."""

    name: str
    function: Callable[[LossInputs], Tensor]
    needs: frozenset[str] = frozenset()
    weight: float = 1.0
    is_pull: bool = False
    """Whether it is 1/2 ||w - w_received||^2 over all parameters: then its gradient needs no other weight."""
    hears: Callable[[ClientStatistics], Tensor] | None = field(default=None, compare=False)
    """Whether the teacher's logits make a difference to such a client, per leading index; None: to any."""

    def __rmul__(self, factor: float) -> Term:
        return replace(self, weight=self.weight * factor)

    def __add__(self, other: Term | Objective) -> Objective:
        return Objective((self,)) + other


@dataclass(frozen=True)
class Objective:
    """A sum of terms."""

    terms: tuple[Term, ...] = field(default_factory=tuple)

    def __add__(self, other: Term | Objective) -> Objective:
        return Objective(self.terms + (other.terms if isinstance(other, Objective) else (other,)))

    @property
    def needs(self) -> frozenset[str]:
        """Everything any term needs beyond logits, labels and counts."""
        return frozenset().union(*(term.needs for term in self.terms))

    def hears_teacher(self, client: ClientStatistics) -> Tensor:
        """Whether what the teacher says of a client's samples makes a difference, per leading index; where not, it need
        not be asked."""
        heard = torch.zeros_like(client.counts[..., 0], dtype=torch.bool)
        for term in self.terms:
            if term.needs & {"teacher_logits", "teacher_features"}:
                heard = heard | (True if term.hears is None else term.hears(client))
        return heard

    def __call__(self, inputs: LossInputs) -> Tensor:
        """The objective's value per leading index. A weight of 1 multiplies nothing, so identities hold to the bit."""
        values = [t.function(inputs) if t.weight == 1.0 else t.weight * t.function(inputs) for t in self.terms]
        total = values[0]
        for value in values[1:]:
            total = total + value
        return total

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        """Each term's own value, before its weight."""
        return {term.name: term.function(inputs) for term in self.terms}


def term(
    name: str,
    *needs: str,
    is_pull: bool = False,
    hears: Callable[[ClientStatistics], Tensor] | None = None,
) -> Callable[[Callable[[LossInputs], Tensor]], Term]:
    """Make a `Term` of a function: `@term("proximal", "params", "teacher_params")`."""
    for need in needs:
        if need not in NEEDS:
            raise UsageError(f"term {name!r} needs {need!r}, which no engine provides; it may need {', '.join(NEEDS)}")
    return lambda function: Term(name, function, frozenset(needs), is_pull=is_pull, hears=hears)


def as_objective(value: Term | Objective) -> Objective:
    """A single term is an objective too."""
    return value if isinstance(value, Objective) else Objective((value,))
