"""A part of the training data, for a quick look at a large set."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..registry import convert
from .federated import FederatedData


def take_fraction(data: FederatedData, fraction: float) -> FederatedData:
    """The data with this share of its training samples; the test set stays whole.

    Every stratum keeps its share, rounded, and at least one sample: a class, within a domain or a client where there
    are any. The samples kept are spread evenly over the stratum in file order, so nothing is drawn and every run with
    this fraction sees the same ones. What is computed from all texts, such as the vocabulary, stays as it is.
    """
    fraction = convert(fraction, float, "data.fraction")
    if not 0 < fraction <= 1:
        raise UsageError(f"data.fraction = {fraction} must be above 0 and at most 1: the share of the training data")
    kept = np.sort(np.concatenate([_spread(own, fraction) for own in _strata(data)]))
    changes: dict[str, Any] = {"x_train": data.x_train[kept], "y_train": data.y_train[kept]}
    if data.domain_train is not None:
        changes["domain_train"] = data.domain_train[kept]
    if data.clients is not None:
        changes["clients"] = tuple(np.flatnonzero(np.isin(kept, own)) for own in data.clients)
    if data.spec is not None:
        changes["spec"] = {**data.spec, "fraction": fraction}
    return dataclasses.replace(data, **changes)


def share_of(size: int, fraction: float) -> int:
    """How many of `size` samples are kept."""
    return max(1, round(size * fraction)) if size else 0


def _strata(data: FederatedData) -> list[NDArray[np.int64]]:
    """Positions of the samples of one class, one domain and one client."""
    client = np.zeros(len(data.y_train), np.int64)
    for number, own in enumerate(data.clients or ()):
        client[own] = number
    domain = np.zeros_like(client) if data.domain_train is None else data.domain_train
    _, stratum = np.unique(np.stack([data.y_train, domain, client]), axis=1, return_inverse=True)
    order = np.argsort(stratum, kind="stable")
    return np.split(order, np.cumsum(np.bincount(stratum))[:-1])


def _spread(positions: NDArray[np.int64], fraction: float) -> NDArray[np.int64]:
    count = share_of(len(positions), fraction)
    return positions[np.arange(count) * len(positions) // count]
