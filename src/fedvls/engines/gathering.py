"""A step's minibatches, out of the samples of all clients of a stack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from .. import kernels
from .base import Tensors
from .schedule import Block

AT_ONCE = 256
"""Steps laid out at once on a CPU: enough to be cheap, few enough to be small, 2.5 MB for eight clients' minibatches
of 64."""


def gathered(held: Mapping[str, Tensor], names: tuple[str, ...], step: Tensor, own: slice, width: int) -> Tensors:
    """The tensors named, `[K, B, ...]`, for the clients `own`; `mask`, False for padding, and `lengths`, how many
    samples are real. held: those tensors `[N, ...]`, and for all steps `rows`, `lengths` and `positions`."""
    samples = {name: held[name] for name in names}
    at_once = kernels.gathered(step, held["rows"], held["lengths"], samples, own, width)
    if at_once is not None:
        return at_once
    lengths, rows = (held[name].index_select(0, step)[0, own] for name in ("lengths", "rows"))
    rows = rows[:, :width].reshape(-1)
    taken = {name: value.index_select(0, rows).view(-1, width, *value.shape[1:]) for name, value in samples.items()}
    return taken | {"mask": held["positions"][:width] < lengths.unsqueeze(1), "lengths": lengths}


class Gathering:
    """`gathered` for a block's next steps on a CPU. What is small is looked up for many of them at once: to do so in
    every step would take as long as a layer's product.

    Of a minibatch's mask its opposite is there too, `padding`, and the number of samples as a loss wants it, `real`.
    """

    def __init__(self, held: Mapping[str, Tensor], names: Sequence[str], block: Block, first: int) -> None:
        self.block, self.steps = block, range(first, min(first + AT_ONCE, block.stop))
        steps, clients = slice(first, self.steps.stop), slice(block.first, block.last)
        rows, lengths = held["rows"][steps, clients, : block.width], held["lengths"][steps, clients]
        mask = held["positions"][: block.width] < lengths.unsqueeze(2)
        small = {"mask": mask, "lengths": lengths, "padding": ~mask, "real": lengths.clamp(min=1).long()}
        small |= {"y": held["y"].index_select(0, rows.reshape(-1)).view(rows.shape)}
        self._rows = rows.flatten(1).unbind()
        self._large = {name: held[name] for name in names if name != "y"}
        by_step = zip(*(tensor.unbind() for tensor in small.values()), strict=True)
        self._small = [dict(zip(small, each, strict=True)) for each in by_step]

    def at(self, step: int) -> Tensors:
        """The step's minibatches."""
        number = step - self.steps.start
        rows, width = self._rows[number], self.block.width
        found = {name: t.index_select(0, rows).view(-1, width, *t.shape[1:]) for name, t in self._large.items()}
        return found | self._small[number]
