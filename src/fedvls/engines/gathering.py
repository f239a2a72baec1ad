"""A step's minibatches, out of the samples of all clients of a stack."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from .. import kernels
from .base import Tensors


def gathered(held: Mapping[str, Tensor], names: tuple[str, ...], step: Tensor, own: slice, width: int) -> Tensors:
    """The tensors named, `[K, B, ...]`, for the clients `own`; `mask`, False for padding, and `lengths`, how many
    samples are real. held: those tensors `[N, ...]`, and for all steps `rows`, `lengths` and `positions`."""
    samples = {name: held[name] for name in names}
    at_once = kernels.gathered(step, held["rows"], held["lengths"], samples, own, width)
    if at_once is not None:
        return at_once
    lengths = at_step(held["lengths"], step)[own]
    rows = at_step(held["rows"], step)[own, :width].reshape(-1)
    taken = {name: value.index_select(0, rows).view(-1, width, *value.shape[1:]) for name, value in samples.items()}
    return taken | {"mask": held["positions"][:width] < lengths.unsqueeze(1), "lengths": lengths}


def at_step(each: Tensor, step: Tensor) -> Tensor:
    """Of tensors `[S, ...]` for all steps that of the step at hand, `[1]`. A GPU looks it up where it is needed."""
    return each[int(step)] if step.device.type == "cpu" else each.index_select(0, step)[0]
