"""Data that are divided already: every client keeps what it has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import PartitionError
from .split import PARTITIONS, Partition


@PARTITIONS.register("given")
def given() -> Partition:
    """The clients the data came with: nothing is drawn, and the seed changes nothing.

    For `FederatedData.from_clients`. A sample that belongs to no client is not used.
    """
    return Partition(_assign, needs=("given",))


def _assign(
    labels: np.ndarray,
    classes: int,
    clients: int,
    random: np.random.RandomState,
    *,
    given: Sequence[np.ndarray] | None,
) -> tuple[list[np.ndarray], int]:
    if given is None:
        raise PartitionError(
            f"the data do not say which of {clients} clients holds what: "
            "make them with FederatedData.from_clients, or choose another partition"
        )
    if len(given) != clients:
        raise PartitionError(f"{clients} clients, but the data came from {len(given)}: use {len(given)} clients")
    positions = [np.asarray(own, dtype=np.int64) for own in given]
    times = np.zeros(len(labels), dtype=np.int64)
    for client, own in enumerate(positions):
        for outside in own[(own < 0) | (own >= len(labels))][:1]:
            raise PartitionError(f"client {client} of {clients} holds sample {outside}: there are {len(labels)}")
        np.add.at(times, own, 1)
    for twice in np.flatnonzero(times > 1)[:1]:
        raise PartitionError(f"sample {twice} is held more than once among {clients} clients")
    return positions, 1
