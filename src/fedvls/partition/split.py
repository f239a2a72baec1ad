"""What a partition is (`Partition`), what it makes (`Split`), and the registry of those that exist."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import DataError, PartitionError, UsageError
from ..registry import Registry

Assign = Callable[..., tuple[list[np.ndarray], int]]


@dataclass(frozen=True, eq=False)
class Split:
    """Which training samples each client holds.

    `indices[i]` are the positions of client i's samples in the training labels, `counts[i, c]` how many of them are of
    class c, and `tries` how many draws it took until one was accepted.
    """

    indices: tuple[np.ndarray, ...]
    counts: np.ndarray
    tries: int = 1

    @classmethod
    def of(cls, indices: Sequence[np.ndarray], labels: np.ndarray, classes: int, tries: int = 1) -> Split:
        """The split with these positions per client, its class counts taken from `labels`."""
        lists = tuple(np.asarray(one, dtype=np.int64) for one in indices)
        counts = np.array([np.bincount(labels[one], minlength=classes) for one in lists], dtype=np.int64)
        return cls(lists, counts.reshape(len(lists), classes), tries)

    @property
    def clients(self) -> int:
        """Number of clients."""
        return int(self.counts.shape[0])

    @property
    def classes(self) -> int:
        """Number of classes, those without a sample included."""
        return int(self.counts.shape[1])

    @property
    def sizes(self) -> np.ndarray:
        """Samples per client."""
        return np.asarray(self.counts.sum(axis=1))

    @property
    def vacant(self) -> np.ndarray:
        """`vacant[i, c]`: client i holds no sample of class c."""
        return np.asarray(self.counts == 0)

    @property
    def vacant_per_client(self) -> float:
        """Mean number of vacant classes of a client: the one number that says how skewed the labels are."""
        return float(self.vacant.sum(axis=1).mean())

    @property
    def fingerprint(self) -> str:
        """16 hex digits that change when a sample moves to another client or to another place in a client's list."""
        digest = hashlib.sha256(np.array(self.clients, dtype="<i8").tobytes())
        for one in self.indices:
            digest.update(np.array(len(one), dtype="<i8").tobytes())
            digest.update(one.astype("<i8").tobytes())
        return digest.hexdigest()[:16]

    def summary(self) -> dict[str, Any]:
        """Everything but the positions, ready for JSON."""
        return {
            "clients": self.clients,
            "classes": self.classes,
            "sizes": self.sizes.tolist(),
            "vacant_per_client": self.vacant_per_client,
            "vacant": [np.flatnonzero(row).tolist() for row in self.vacant],
            "counts": self.counts.tolist(),
            "fingerprint": self.fingerprint,
            "tries": self.tries,
        }


@dataclass(frozen=True)
class Partition:
    """A way to share training samples among clients.

    `assign(labels, classes, clients, random)` returns the positions per client and the number of draws it took. It
    draws from `random` only, so a seed fixes the split. `needs` names what else it is handed, by keyword, of what the
    data know: "given" (positions per client of data that are divided already) or "domains" (of every sample).
    """

    assign: Assign
    name: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()

    @property
    def spec(self) -> dict[str, Any]:
        """Name and values: what rebuilds this partition with `get_partition`."""
        return {"name": self.name, **self.values}

    def split(
        self,
        labels: np.ndarray,
        classes: int,
        clients: int,
        seed: int,
        *,
        given: Sequence[np.ndarray] | None = None,
        domains: np.ndarray | None = None,
    ) -> Split:
        """Share the samples with these labels; `seed` goes unchanged into a private `RandomState`.

        given, domains: `FederatedData.clients` and `FederatedData.domain_train`, for partitions that need them.

        Published tables were drawn from numpy's legacy generator, which is why it is used here and nowhere else.
        """
        classes = whole("classes", classes, 1)
        clients = whole("clients", clients, 1)
        random = np.random.RandomState(whole("partition seed", seed, 0, 2**32 - 1))
        labels = _checked_labels(labels, classes)
        if clients > len(labels):
            raise PartitionError(
                f"{clients} clients but only {len(labels)} training samples: use at most {len(labels)} clients"
            )
        try:
            known = {"given": given, "domains": domains}
            indices, tries = self.assign(labels, classes, clients, random, **{key: known[key] for key in self.needs})
            split = Split.of(indices, labels, classes, tries)
            for client in np.flatnonzero(split.sizes == 0):
                raise PartitionError(
                    f"client {client} of {clients} gets none of the {len(labels)} training samples: "
                    "use fewer clients or another partition"
                )
        except PartitionError as error:
            raise PartitionError(f"partition {self.name!r}: {error}") from None
        return split


PARTITIONS: Registry[Partition] = Registry("partition")


def whole(what: str, value: Any, low: int, high: int | None = None) -> int:
    """`value` as an int within these bounds, or an error that names it."""
    allowed = f"a whole number of at least {low}" if high is None else f"a whole number from {low} to {high}"
    try:
        number = operator.index(value)
    except TypeError:
        raise UsageError(f"{what} = {value!r} must be {allowed}") from None
    if isinstance(value, bool) or number < low or (high is not None and number > high):
        raise UsageError(f"{what} = {value!r} must be {allowed}")
    return number


def _checked_labels(labels: np.ndarray, classes: int) -> np.ndarray:
    labels = np.asarray(labels)
    if labels.ndim != 1:
        raise DataError(f"labels have shape {labels.shape}: they must be one row of class numbers")
    if labels.size == 0:
        raise DataError("there are no training labels: a partition needs at least one sample per client")
    if labels.dtype.kind not in "iu":
        raise DataError(f"labels have type {labels.dtype}: they must be whole numbers from 0 to {classes - 1}")
    if labels.min() < 0 or labels.max() >= classes:
        position = int(np.argmax((labels < 0) | (labels >= classes)))
        raise DataError(
            f"label {labels[position]} at position {position} is not a class: "
            f"with {classes} classes, labels go from 0 to {classes - 1}"
        )
    return labels.astype(np.int64, copy=False)


def positions_by_class(labels: np.ndarray, classes: int) -> list[np.ndarray]:
    """For every class the positions of its samples, ascending."""
    # Stable sorting of the smallest integer type that fits is a radix sort: linear in the number of samples.
    order = np.argsort(labels.astype(np.min_scalar_type(classes)), kind="stable").astype(np.int64, copy=False)
    return np.split(order, np.bincount(labels, minlength=classes).cumsum()[:-1])


def gather(pieces: Iterable[tuple[int, np.ndarray]], clients: int) -> list[np.ndarray]:
    """One array per client from (client, positions) pieces, in the order they come."""
    held: list[list[np.ndarray]] = [[np.empty(0, dtype=np.int64)] for _ in range(clients)]
    for client, piece in pieces:
        held[client].append(piece)
    return [np.concatenate(own) for own in held]
