"""A user's own tensors, checked before a loss sees them: shapes that broadcast by accident give wrong numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..errors import UsageError
from .term import ClientStatistics, LossInputs

ABSENT_AT_FIRST = frozenset({"previous_features", "received"})


def checked_inputs(
    method: str,
    needs: frozenset[str],
    *,
    logits: Tensor,
    labels: Tensor,
    counts: Any,
    sample_mask: Tensor | None,
    **optional: Any,
) -> LossInputs:
    """Loss inputs, or one line that says what does not fit."""
    if logits.dim() < 2 or labels.shape != logits.shape[:-1]:
        raise UsageError(
            f"logits {tuple(logits.shape)} and labels {tuple(labels.shape)} do not fit: "
            "logits are [..., batch, classes], labels [..., batch]"
        )
    for need in sorted(needs - ABSENT_AT_FIRST):
        if optional[need] is None:
            raise UsageError(f"method {method!r} needs {need}=: it is part of its loss")
    _same_shape("teacher_logits", optional["teacher_logits"], "logits", logits)
    if sample_mask is None:
        sample_mask = torch.ones_like(labels, dtype=torch.bool)
    _same_shape("sample_mask", sample_mask, "labels", labels)
    for name in ("teacher_features", "previous_features"):
        _same_shape(name, optional[name], "features", optional["features"])
    if "params" in needs:
        _same_tensors(optional["params"], optional["teacher_params"])
    labels = _labels(labels, logits.shape[-1])
    statistics = ClientStatistics(_counts(counts, logits, labels, sample_mask.bool()))
    before = optional["previous_features"] is not None
    optional["has_previous"] = torch.full(labels.shape[:-1], before, device=labels.device)
    if not before:
        optional["previous_features"] = optional["teacher_features"]
    return LossInputs(logits, labels, sample_mask.bool(), statistics, **optional)


def _same_shape(name: str, tensor: Tensor | None, other_name: str, other: Tensor | None) -> None:
    if tensor is not None and other is not None and tensor.shape != other.shape:
        raise UsageError(f"{name} {tuple(tensor.shape)} must have the shape of {other_name} {tuple(other.shape)}")


def _same_tensors(now: Mapping[str, Tensor], received: Mapping[str, Tensor]) -> None:
    if not now or now.keys() != received.keys():
        raise UsageError(
            f"params ({', '.join(now) or 'none'}) and teacher_params ({', '.join(received) or 'none'}) "
            "must be the same trainable parameters, by name"
        )
    for name, tensor in now.items():
        _same_shape(f"teacher_params[{name!r}]", received[name], f"params[{name!r}]", tensor)


def _labels(labels: Tensor, classes: int) -> Tensor:
    if labels.is_floating_point() and not torch.equal(labels, labels.round()):
        raise UsageError("labels must be whole numbers, the classes' numbers")
    if bool(((labels < 0) | (labels >= classes)).any()):
        raise UsageError(f"labels must lie in 0..{classes - 1}; found {int(labels.min())}..{int(labels.max())}")
    return labels.long()


def _counts(counts: Any, logits: Tensor, labels: Tensor, real: Tensor) -> Tensor:
    """Class counts in the loss's precision, one row or one per leading index."""
    classes = logits.shape[-1]
    if counts is None:
        counts = torch.ones(classes)
    dtype = torch.float64 if logits.dtype == torch.float64 else torch.float32
    counts = torch.as_tensor(counts, device=logits.device).to(dtype)
    assert isinstance(counts, Tensor)
    if counts.shape[-1:] != (classes,) or counts.shape[:-1] not in (torch.Size(), labels.shape[:-1]):
        wanted = " or ".join(str(tuple(shape)) for shape in dict.fromkeys([(classes,), (*labels.shape[:-1], classes)]))
        raise UsageError(f"counts {tuple(counts.shape)} must have the shape {wanted}: samples per class of the client")
    if not bool(torch.isfinite(counts).all()) or bool((counts < 0).any()) or bool((counts.sum(-1) <= 0).any()):
        raise UsageError("counts must be finite and non-negative, with at least one sample per client")
    own = counts.expand(*labels.shape[:-1], classes).gather(-1, labels)
    if bool(((own == 0) & real).any()):
        missing = int(labels[(own == 0) & real][0])
        raise UsageError(f"a label is {missing}, but counts has none of that class: are they another client's counts?")
    return counts
