"""Shards: every class is cut into pieces and the pieces are dealt to the clients like cards."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ..errors import PartitionError
from .quantity import checked_per_client, resolve_per_client
from .split import PARTITIONS, Partition, gather, positions_by_class

Cut = Callable[[int, int, np.random.RandomState], np.ndarray]


@PARTITIONS.register("shards")
def shards(classes_per_client: int | None = None) -> Partition:
    """Equal shards of every class dealt at random, a fixed number per client: balanced sizes, few classes each.

    Args:
        classes_per_client: s, the shards of a client; by default a fifth of the classes.

    With N clients and C classes that have samples, each class, in random order, is cut into s * N / C shards whose
    sizes differ by at most one; all shards are shuffled and dealt s to a client. A client may be dealt two shards of
    one class, so it has at most s classes. This is the sharding of FedNTD.

    Deviations from its code: where s * N is not a multiple of C, classes chosen at random are cut into one shard more
    (there it is not defined); one private generator rather than two global ones; classes without a sample get no shard.
    """
    return Partition(partial(_assign, per_client=checked_per_client(classes_per_client), cut=_equal))


@PARTITIONS.register("shards-imbalanced")
def shards_imbalanced(classes_per_client: int | None = None) -> Partition:
    """Shards of very unequal size dealt at random, a fixed number per client, as the paper describes its split.

    As `shards`, but a class of n_c samples is cut into m shards at random: each gets max(10, n_c / (10 m)) samples
    (or n_c / m, where the class is too small for that) and the rest is cut at m - 1 uniform points. The paper's text
    gives no formula; the minimum follows the released `quantity` scheme.
    """
    return Partition(partial(_assign, per_client=checked_per_client(classes_per_client), cut=_unequal))


def _assign(
    labels: np.ndarray,
    classes: int,
    clients: int,
    random: np.random.RandomState,
    *,
    per_client: int | None,
    cut: Cut,
) -> tuple[list[np.ndarray], int]:
    each = resolve_per_client(per_client, classes)
    present = [positions for positions in positions_by_class(labels, classes) if len(positions)]
    parts, extra = divmod(clients * each, len(present))
    if parts == 0:
        least = -(-len(present) // each)
        raise PartitionError(
            f"{clients} clients with classes_per_client = {each} make {clients * each} shards for {len(present)} "
            f"classes: use at least {least} clients or more classes per client"
        )
    parts_of = np.full(len(present), parts)
    parts_of[random.permutation(len(present))[:extra]] += 1
    deck = np.repeat(np.arange(len(present)), parts_of)
    random.shuffle(deck)
    # Sorted by class, the places in the deck say which client holds the first, second, ... shard of every class.
    holders = np.split(np.argsort(deck, kind="stable") // each, np.cumsum(parts_of)[:-1])
    pieces: list[tuple[int, np.ndarray]] = []
    for positions, holding in zip(present, holders, strict=True):
        random.shuffle(positions)
        sizes = cut(len(positions), len(holding), random)
        pieces += zip(holding.tolist(), np.split(positions, np.cumsum(sizes)[:-1]), strict=True)
    return gather(pieces, clients), 1


def _equal(total: int, parts: int, random: np.random.RandomState) -> np.ndarray:
    """Sizes that differ by at most one, the larger ones first."""
    return total // parts + (np.arange(parts) < total % parts)


def _unequal(total: int, parts: int, random: np.random.RandomState) -> np.ndarray:
    """A minimum for every shard, and the rest cut at uniform points."""
    least = int(min(max(10, total / (10 * parts)), total / parts))
    rest = total - least * parts
    points = np.sort(random.randint(0, rest + 1, parts - 1, dtype=np.int64))
    return least + np.diff(np.concatenate(([0], points, [rest])))
