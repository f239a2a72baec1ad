"""The order in which a client sees its samples: shared by all engines, so that all train on the same minibatches."""

from __future__ import annotations

import itertools

import numpy as np

from .. import rng


def batch_lengths(samples: int, batch_size: int, *, batch_norm: bool) -> list[int]:
    """How long the minibatches of an epoch are; the last, smaller one is kept.

    Under BatchNorm a batch of one sample has no variance (PyTorch refuses it on 1x1 maps): it joins the batch before
    it, and a client with a single sample sees that sample twice.
    """
    if batch_norm and samples == 1:
        return [2]
    full, rest = divmod(samples, batch_size)
    lengths = [batch_size] * full + ([rest] if rest else [])
    if batch_norm and rest == 1:
        lengths[-2:] = [batch_size + 1]
    return lengths


def epoch_batches(
    samples: int, batch_size: int, *, seed: int, round: int, client: int, epoch: int, batch_norm: bool
) -> list[np.ndarray]:
    """Positions 0..samples-1 in a keyed random order, cut into minibatches."""
    order = rng.permutation(rng.key(seed, "batches", round, client, epoch), samples)
    lengths = batch_lengths(samples, batch_size, batch_norm=batch_norm)
    if sum(lengths) > samples:  # a single sample, seen twice
        order = order.repeat(2)
    edges = [0, *itertools.accumulate(lengths)]
    return [order[first:last] for first, last in itertools.pairwise(edges)]  # what np.split does, but faster


def dropout_keys(count: int, *, seed: int, round: int, client: int, epoch: int) -> np.ndarray:
    """`[count, 2]` int32: the keys of an epoch's first minibatches."""
    return rng.word_pairs(rng.key(seed, "dropout", round, client, epoch), count)
