"""No skew: the yardstick for every other partition."""

from __future__ import annotations

import numpy as np

from .split import PARTITIONS, Partition


@PARTITIONS.register("iid")
def iid() -> Partition:
    """A random equal share for every client: no label skew.

    A random order of all samples is cut into pieces whose sizes differ by at most one.
    """
    return Partition(_assign)


def _assign(
    labels: np.ndarray, classes: int, clients: int, random: np.random.RandomState
) -> tuple[list[np.ndarray], int]:
    return list(np.array_split(random.permutation(len(labels)), clients)), 1
