"""Which clients of a stack take which step together.

`minibatches` lays the clients' minibatches out in one array, `blocks` cuts it into rectangles: some neighbouring
clients, some consecutive steps, one width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..lift.base import Padding
from .base import ClientTask, RoundJob
from .batches import batch_lengths, dropout_keys, epoch_batches

NARROWEST = 8


@dataclass(frozen=True)
class Minibatches:
    """The minibatches of K clients over S steps, each at most W wide."""

    rows: np.ndarray
    """`[K, S, W]` int64: samples, numbered through the whole stack; padding repeats a batch's first sample."""
    lengths: np.ndarray
    """`[K, S]` int32: real samples of each; 0 where a client has no minibatch."""
    collected: np.ndarray
    """`[K, S]` bool: those of the last epoch, whose features a method may want."""
    widths: np.ndarray
    """`[K]` int64: to what a client's minibatches are padded where any may be. Its own samples alone decide it, so
    that its sums are rounded alike in every stack."""
    keys: np.ndarray | None = None
    """`[K, S, 2]` int32: where dropout takes its masks from, if the model has any."""


@dataclass(frozen=True)
class Block:
    """Clients first..last-1 take steps start..stop-1 together, in minibatches of one width, padded or not."""

    first: int
    last: int
    start: int
    stop: int
    width: int
    padded: bool


def by_length(job: RoundJob, tasks: Sequence[ClientTask], *, batch_norm: bool) -> list[ClientTask]:
    """Most steps first, equal remainders side by side: those who finish early leave the stack at its end."""

    def length(task: ClientTask) -> tuple[int, int, int, int]:
        lengths = batch_lengths(task.samples, job.recipe.batch_size, batch_norm=batch_norm)
        full = sum(n == job.recipe.batch_size for n in lengths)
        return -len(lengths), -full, -lengths[-1], task.client

    return sorted(tasks, key=length)


def minibatches(
    job: RoundJob,
    tasks: Sequence[ClientTask],
    epochs: range,
    *,
    batch_norm: bool,
    padding: Padding,
    width: Callable[[int], int] = int,
    dropout: bool = False,
) -> Minibatches:
    """The clients' minibatches of these epochs. width: how wide one of so many samples is made, where any is padded.

    Where any minibatch may be padded, each client goes on without a pause. Otherwise an epoch begins at the same step
    for every client (shorter ones wait), so that minibatches of equal width meet.
    """
    recipe, offset, aligned = job.recipe, 0, padding != "any"
    found: list[list[_Epoch]] = []  # per client
    for task in tasks:
        own = []
        per_epoch = len(batch_lengths(task.samples, recipe.batch_size, batch_norm=batch_norm))
        for epoch in epochs:
            where = {"seed": job.seed, "round": job.round, "client": task.client, "epoch": epoch}
            orders = epoch_batches(task.samples, recipe.batch_size, batch_norm=batch_norm, **where)
            if recipe.max_steps is not None:
                orders = orders[: max(recipe.max_steps - epoch * per_epoch, 0)]
            keys = dropout_keys(len(orders), **where) if dropout else None
            own.append(_Epoch(epoch, [offset + order for order in orders], keys))
        found.append(own)
        offset += task.samples
    stride = max(len(epoch.batches) for own in found for epoch in own)
    steps = stride * len(epochs) if aligned else max(sum(len(epoch.batches) for epoch in own) for own in found)
    longest = [max((len(rows) for epoch in own for rows in epoch.batches), default=0) for own in found]
    wide = [max(_padded(task.samples, recipe.batch_size), most) for task, most in zip(tasks, longest, strict=True)]
    widths = np.array([width(samples) for samples in wide])
    widest = {"any": int(widths.max()), "partial": max(recipe.batch_size, *longest), "none": max(longest)}[padding]
    result = Minibatches(
        np.zeros((len(tasks), steps, widest), np.int64),
        np.zeros((len(tasks), steps), np.int32),
        np.zeros((len(tasks), steps), np.bool_),
        widths,
        np.zeros((len(tasks), steps, 2), np.int32) if dropout else None,
    )
    for client, own in enumerate(found):
        first = 0
        for number, (epoch, batches, keys) in enumerate(own):
            first = number * stride if aligned else first
            taken = slice(first, first + len(batches))
            for place, rows in zip(result.rows[client, taken], batches, strict=True):
                place[: len(rows)] = rows
                place[len(rows) :] = rows[0]
            result.lengths[client, taken] = [len(rows) for rows in batches]
            result.collected[client, taken] = epoch == recipe.epochs - 1
            if result.keys is not None:
                result.keys[client, taken] = keys
            first += len(batches)
    return result


class _Epoch(NamedTuple):
    """One client's minibatches of one epoch."""

    number: int
    batches: list[np.ndarray]
    keys: np.ndarray | None


def _padded(samples: int, batch_size: int) -> int:
    """The batch size, or for a client with less the next power of two: few widths, so few captured steps."""
    return batch_size if samples >= batch_size else min(batch_size, max(NARROWEST, 1 << (samples - 1).bit_length()))


def blocks(batches: Minibatches, batch_size: int, padding: Padding) -> Iterator[Block]:
    """All minibatches in an order that keeps every client's own."""
    lengths = batches.lengths
    if padding == "any":
        lengths = np.where(lengths > 0, -batches.widths[:, None], 0)
    elif padding == "partial":
        lengths = np.where((lengths > 0) & (lengths < batch_size), -batch_size, lengths)
    steps = lengths.shape[1]  # from here on a negative length is a width with padding
    changes = np.flatnonzero((lengths[:, 1:] != lengths[:, :-1]).any(0)) + 1
    for start, stop in zip([0, *changes], [*changes, steps], strict=True):
        runs = list(_runs(lengths[:, start])) if steps else []
        if len(runs) == 1:
            (first, last, wide) = runs[0]
            yield Block(first, last, int(start), int(stop), abs(wide), wide < 0)
            continue
        for step in range(int(start), int(stop)):
            for first, last, wide in runs:
                yield Block(first, last, step, step + 1, abs(wide), wide < 0)


def _runs(lengths: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Neighbouring clients with minibatches of one width: (first, last + 1, width)."""
    edges = np.flatnonzero(np.diff(lengths)) + 1
    for first, last in zip([0, *edges], [*edges, len(lengths)], strict=True):
        if lengths[first] != 0:
            yield int(first), int(last), int(lengths[first])
