"""Ways to share a data set among clients so that their labels differ. Needs numpy only."""

from __future__ import annotations

from typing import Any

from .dirichlet import dirichlet, dirichlet_client, dirichlet_plain
from .given import given
from .iid import iid
from .per_domain import per_domain
from .quantity import quantity
from .shards import shards, shards_imbalanced
from .split import PARTITIONS, Partition, Split


def get_partition(name: str, **values: Any) -> Partition:
    """The registered partition `name` with these values, e.g. `get_partition("dirichlet", beta=0.05)`."""
    return PARTITIONS.build(name, **values)


__all__ = [
    "PARTITIONS",
    "Partition",
    "Split",
    "dirichlet",
    "dirichlet_client",
    "dirichlet_plain",
    "get_partition",
    "given",
    "iid",
    "per_domain",
    "quantity",
    "shards",
    "shards_imbalanced",
]
