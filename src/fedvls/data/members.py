"""Who holds which training sample, and which domain it is from: fields of `FederatedData`, checked here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, UsageError
from .arrays import Array, as_array, as_labels, as_samples, as_tokens, number_of_tokens

Positions = tuple[NDArray[np.int64], ...]


def is_one_per_client(x: object, y: object) -> bool:
    """Whether these are lists with one array per client, rather than one list of samples.

    Clients: `x` is a list of arrays of two or more axes and `y` a list of rows of labels. A list of images comes with
    single labels instead, which is what tells the two apart.
    """
    if not (isinstance(x, list | tuple) and isinstance(y, list | tuple) and x and y):
        return False
    if min(map(_axes, x)) < 2 or min(map(_axes, y)) < 1:
        return False
    single = all(len(one) == 1 for one in y)  # labels that come as arrays of one number
    return not single or all(len(one) == 1 for one in x)


def join(xs: object, ys: object, part: str, vocabulary: int | None) -> tuple[Array, NDArray[np.int64], Positions]:
    """All samples and labels in the order of the clients, and the positions of each client's."""
    if not (isinstance(xs, list | tuple) and isinstance(ys, list | tuple)):
        given = type(xs if not isinstance(xs, list | tuple) else ys).__name__
        raise DataError(f"clients come as lists, one array per client for x_{part} and for y_{part}, not as {given}")
    if len(xs) != len(ys):
        raise DataError(f"x_{part} comes from {len(xs)} clients but y_{part} from {len(ys)}")
    if len(xs) == 0:
        raise DataError(f"x_{part} comes from no client: at least one is needed")
    tokens = None if vocabulary is None else number_of_tokens(vocabulary)
    samples: list[Array] = []
    labels: list[NDArray[np.int64]] = []
    for client, (own_x, own_y) in enumerate(zip(xs, ys, strict=True)):
        x_name, y_name = (f"client {client}'s {which}_{part}" for which in "xy")
        x = as_samples(own_x, x_name) if tokens is None else as_tokens(own_x, x_name, tokens)
        y = as_labels(own_y, y_name)
        if len(x) != len(y):
            raise DataError(f"{x_name} has {len(x)} samples but {y_name} has {len(y)} labels")
        if samples and x.shape[1:] != samples[0].shape[1:]:
            raise DataError(f"{x_name} has samples of shape {x.shape[1:]} but client 0 of {samples[0].shape[1:]}")
        if samples and (x.dtype == np.uint8) != (samples[0].dtype == np.uint8):
            raise DataError(
                f"{x_name} is {x.dtype} but client 0's is {samples[0].dtype}: give all as uint8 or all as floats"
            )
        samples.append(x)
        labels.append(y)
    ends = np.cumsum([len(y) for y in labels])
    positions = tuple(np.arange(end - len(y), end, dtype=np.int64) for y, end in zip(labels, ends, strict=True))
    return np.concatenate(samples), np.concatenate(labels), positions


def as_positions(value: Sequence[object], samples: int) -> Positions:
    """Positions per client, each in range and at one client only."""
    checked: list[NDArray[np.int64]] = []
    held = np.zeros(samples, dtype=bool)
    for client, one in enumerate(value):
        own = as_array(one, f"clients[{client}]")
        if own.ndim != 1 or own.dtype.kind not in "iu" or len(own) == 0:
            raise DataError(
                f"clients[{client}] has dtype {own.dtype} and shape {own.shape}: "
                "a client needs a row of positions of training samples"
            )
        for position in own[(own < 0) | (own >= samples)][:1]:
            raise DataError(f"clients[{client}] holds position {position}: there are {samples} training samples")
        numbers, times = np.unique(own, return_counts=True)
        for position in numbers[held[numbers] | (times > 1)][:1]:
            raise DataError(f"clients[{client}] holds position {position}, which is taken already")
        held[own] = True
        checked.append(own.astype(np.int64, copy=False))
    if not checked:
        raise DataError("clients is empty: leave it out, or give the positions of at least one client")
    return tuple(checked)


def as_domains(value: object, names: tuple[str, ...], samples: int, name: str) -> NDArray[np.int64]:
    """The domain of every sample, as a number 0..len(names)-1."""
    domain = as_labels(value, name)
    if len(domain) != samples:
        raise DataError(f"{name} has {len(domain)} entries for {samples} samples")
    for at in np.flatnonzero(domain >= len(names))[:1]:
        raise DataError(f"{name}[{at}] = {domain[at]}: there are {len(names)} domains ({', '.join(names)})")
    return domain


def as_domain_names(value: Sequence[str]) -> tuple[str, ...]:
    """Names that differ."""
    names = tuple(map(str, value))
    for at, one in enumerate(names):
        if not one or one in names[:at]:
            raise UsageError(f"domains = {names}: {one!r} must be a name of its own")
    return names


def _axes(value: object) -> int:
    """Axes of an array or tensor; a list counts as one, anything else has none."""
    return int(getattr(value, "ndim", 1 if isinstance(value, list | tuple) else 0))
