"""Quantity skew: every client holds a fixed number of classes, in very different amounts."""

from __future__ import annotations

from functools import partial
from math import gcd
from typing import Literal

import numpy as np

from ..errors import PartitionError, UsageError
from .split import PARTITIONS, Partition, gather, positions_by_class, whole

Upper = Literal["auto", "class", "share"]


@PARTITIONS.register("quantity")
def quantity(classes_per_client: int | None = None, upper: Upper = "auto") -> Partition:
    """A fixed number of classes per client in unequal amounts, classes in fixed blocks: the released split.

    Args:
        classes_per_client: s; by default a fifth of the classes.
        upper: largest first draw of an owner: all samples of the class ("class") or an equal share of them ("share").
            "auto" mirrors the two released branches: "class" up to 10 classes (CIFAR-10), "share" above (CIFAR-100,
            TinyImageNet). With many owners per class "class" leaves the later ones one sample each; use "share" there.

    With N clients and C classes, class c goes to the first floor(N * s / C) clients, by number, that own fewer than s
    classes so far. With n_c samples and o owners, every owner but the last draws its size from

        U{ floor(max(n_c / (10 o), 10 / C)), ..., upper - 1 },    upper = n_c or floor(n_c / o)

    and the last takes the rest. Samples are handed out in the order of the data set. For N = 10 and s = C / 5, clients
    2b and 2b + 1 share exactly the classes of block b; who owns what does not depend on the seed.

    Deviations from the released code, none of which changes a table with two owners per class: a draw is clipped so
    that every later owner keeps at least one sample (there later owners can end up empty); a number of clients that
    leaves a client without a class or a class without a client is an error that names numbers that work (there it
    fails later or divides by zero); N * s / C is exact rather than a rounded float.
    """
    return Partition(partial(_assign, per_client=checked_per_client(classes_per_client), upper=upper))


def checked_per_client(given: int | None) -> int | None:
    """The number of classes per client if it is possible at all; None stands for the default."""
    return None if given is None else whole("classes_per_client", given, 1)


def resolve_per_client(given: int | None, classes: int) -> int:
    """The number of classes per client for this data: a fifth of the classes unless it was given."""
    if given is None:
        return max(1, round(0.2 * classes))
    if given > classes:
        raise UsageError(f"classes_per_client = {given}, but there are only {classes} classes: use at most {classes}")
    return given


def _assign(
    labels: np.ndarray,
    classes: int,
    clients: int,
    random: np.random.RandomState,
    *,
    per_client: int | None,
    upper: Upper,
) -> tuple[list[np.ndarray], int]:
    owners = _owners(classes, clients, resolve_per_client(per_client, classes))
    whole_class = upper == "class" or (upper == "auto" and classes <= 10)
    pieces: list[tuple[int, np.ndarray]] = []
    for positions, owning in zip(positions_by_class(labels, classes), owners, strict=True):
        sizes = _sizes(len(positions), len(owning), classes, whole_class, random)
        pieces += zip(owning, np.split(positions, np.cumsum(sizes)[:-1]), strict=True)
    return gather(pieces, clients), 1


def _owners(classes: int, clients: int, per_client: int) -> list[list[int]]:
    """The clients that own each class."""
    per_class = clients * per_client // classes
    quota = np.full(clients, per_client)
    owners = []
    for _ in range(classes):
        owning = np.flatnonzero(quota)[:per_class]
        quota[owning] -= 1
        owners.append(owning.tolist())
    idle = np.flatnonzero(quota == per_client)
    if len(idle):
        what = "no class would have a client" if per_class == 0 else f"client {idle[0]} would have no class"
        step = classes // gcd(classes, per_client)
        works = [count for count in (clients // step * step, (clients // step + 1) * step) if count]
        raise PartitionError(
            f"with {clients} clients, {classes} classes and classes_per_client = {per_client}, {what}: "
            f"use a multiple of {step} clients (such as {' or '.join(map(str, works))})"
        )
    return owners


def _sizes(total: int, owners: int, classes: int, whole_class: bool, random: np.random.RandomState) -> list[int]:
    """How the samples of one class are shared by its owners."""
    share = total / owners
    low = int(max(share / 10, 10 / classes))
    high = total if whole_class else int(share)
    draws = random.randint(low, max(high, low + 1), owners - 1, dtype=np.int64)
    sizes = []
    left = total
    for later, draw in zip(range(owners - 1, 0, -1), draws.tolist(), strict=True):
        # One sample is kept for every later owner; a class with fewer samples than owners gives one to the first ones.
        sizes.append(min(max(draw, 1), max(left - later, 1), left))
        left -= sizes[-1]
    return [*sizes, left]
