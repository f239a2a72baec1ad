"""A test set for data that come without one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def held_out(labels: NDArray[np.int64], keys: Sequence[str]) -> NDArray[np.bool_]:
    """Which samples are for testing: of each class the fifth (rounded up) whose keys have the highest hashes.

    The hash mixes the samples, so what is tested does not depend on the order of the files, and nothing is drawn:
    the same keys give the same split on every machine. Equal keys go the same way, but for those at the border. A class
    of one sample keeps it for training.
    """
    ranks = [hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest() for key in keys]
    test = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        members = sorted(np.flatnonzero(labels == label).tolist(), key=lambda at: (ranks[at], at))
        test[members[max(1, len(members) * 4 // 5) :]] = True
    return test
