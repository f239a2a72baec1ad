"""Who takes part in a round, and what clients keep between rounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from torch import Tensor

from . import rng
from .errors import UsageError

Tensors = dict[str, Tensor]


def cohort_size(clients: int, participation: float) -> int:
    """m = max(floor(R * N), 1); the tiny addend undoes rounding such as 0.29 * 100 = 28.999...96."""
    if not 0 < participation <= 1:
        raise UsageError(f"participation = {participation} must be in (0, 1]: the share of clients in each round")
    return max(math.floor(participation * clients + 1e-9), 1)


def sample_cohort(clients: int, participation: float, seed: int, round: int) -> list[int]:
    """Client ids of a round, ascending. A function of the round number alone, so that a resumed run agrees."""
    size = cohort_size(clients, participation)
    if size == clients:
        return list(range(clients))
    return [int(c) for c in rng.choose(rng.key(seed, "sampling", round), clients, size)]


class ClientStates:
    """What clients keep from one participation to the next (momentum buffers, ...); empty for most methods."""

    def __init__(self, states: Mapping[int, Tensors] | None = None) -> None:
        self._states: dict[int, Tensors] = dict(states or {})

    def get(self, client: int) -> Tensors:
        """The client's tensors; none before its first participation."""
        return self._states.get(client, {})

    def put(self, client: int, tensors: Tensors) -> None:
        if tensors:
            self._states[client] = tensors

    def items(self) -> Iterator[tuple[int, Tensors]]:
        """By ascending client id."""
        return iter(sorted(self._states.items()))
