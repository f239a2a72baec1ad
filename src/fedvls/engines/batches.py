"""The order in which a client sees its samples: shared by all engines, so that all train on the same minibatches."""

from __future__ import annotations

import numpy as np

from .. import rng


def epoch_batches(
    samples: int, batch_size: int, *, seed: int, round: int, client: int, epoch: int, batch_norm: bool
) -> list[np.ndarray]:
    """Positions 0..samples-1 in a keyed random order, cut into batches; the last, smaller one is kept.

    Under BatchNorm a batch of one sample has no variance (PyTorch refuses it on 1x1 maps): it joins the batch before
    it, and a client with a single sample sees that sample twice.
    """
    order = rng.permutation(rng.key(seed, "batches", round, client, epoch), samples)
    if batch_norm and samples == 1:
        return [np.zeros(2, dtype=order.dtype)]
    cuts = list(range(batch_size, samples, batch_size))
    if batch_norm and cuts and samples - cuts[-1] == 1:
        cuts.pop()
    return np.split(order, cuts)
