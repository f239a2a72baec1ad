"""Clients of several domains: each domain has its own clients, and labels are skewed within it."""

from __future__ import annotations

from functools import partial

import numpy as np

from ..errors import DataError, PartitionError, UsageError
from .split import PARTITIONS, Partition, whole


@PARTITIONS.register("per-domain")
def per_domain(
    inner: str = "dirichlet",
    beta: float = 0.5,
    clients_per_domain: int = 6,
    min_size: int = 10,
    max_tries: int = 1000,
    classes_per_client: int | None = None,
) -> Partition:
    """Every domain has its own clients, among whom its samples are shared by another partition.

    Args:
        inner: the partition within a domain, by name.
        beta, min_size, max_tries, classes_per_client: its values; one that it does not have is an error if it is set.
        clients_per_domain: so many clients hold the samples of one domain, and of no other.

    With m clients per domain, clients 0 to m - 1 belong to domain 0, the next m to domain 1, and so on. Domains are
    shared one after the other with the same generator, so a seed fixes all of them. `tries` is their sum.
    """
    values = {"beta": beta, "min_size": min_size, "max_tries": max_tries, "classes_per_client": classes_per_client}
    return Partition(
        partial(_assign, inner=_inner(inner, values), per_domain=whole("clients_per_domain", clients_per_domain, 1)),
        needs=("domains",),
    )


def _inner(name: str, values: dict[str, float | int | None]) -> Partition:
    """The partition within a domain, with those of the values that it has."""
    entry = PARTITIONS.entry(name)
    own = PARTITIONS.entry("per-domain").defaults
    for key, value in values.items():
        if key not in entry.defaults and value != own[key]:
            raise UsageError(f"{key} = {value!r}, but the inner partition {name!r} has no {key}: leave it out")
    built = entry.build(**{key: value for key, value in values.items() if key in entry.defaults})
    if built.needs:
        raise UsageError(f"inner = {name!r} cannot divide a domain: choose one that looks at labels, such as dirichlet")
    return built


def _assign(
    labels: np.ndarray,
    classes: int,
    clients: int,
    random: np.random.RandomState,
    *,
    domains: np.ndarray | None,
    inner: Partition,
    per_domain: int,
) -> tuple[list[np.ndarray], int]:
    if domains is None:
        raise PartitionError(
            f"the data do not say which domain a sample is from, which {clients} clients of domains need: "
            "choose another partition"
        )
    domains = np.asarray(domains)
    if domains.shape != labels.shape or domains.dtype.kind not in "iu" or domains.min() < 0:
        raise DataError(
            f"domains have type {domains.dtype} and shape {domains.shape}: "
            f"they must be one whole number for each of {len(labels)} samples"
        )
    number = int(domains.max()) + 1
    if number * per_domain != clients:
        fits = "" if clients % number else f", or clients_per_domain = {clients // number}"
        raise PartitionError(
            f"{clients} clients, but {number} domains with clients_per_domain = {per_domain} make "
            f"{number * per_domain}: use {number * per_domain} clients{fits}"
        )
    indices: list[np.ndarray] = []
    tries = 0
    for domain in range(number):
        own = np.flatnonzero(domains == domain)
        if len(own) < per_domain:
            raise PartitionError(
                f"domain {domain} has {len(own)} samples for {per_domain} of {clients} clients: use fewer clients"
            )
        try:
            lists, draws = inner.assign(labels[own], classes, per_domain, random)
        except PartitionError as error:
            raise PartitionError(f"domain {domain} of {number}, {clients} clients in all: {error}") from None
        indices += [own[one] for one in lists]
        tries += draws
    return indices, tries
