"""The small digits that come with scikit-learn: real data that is there without any download."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .federated import FederatedData


def load_digits() -> FederatedData:
    """Small handwritten digits, 10 classes: 1,433 training and 364 test images of 8x8 (comes with scikit-learn).

    There is no official split, so this is ours: of each class the first 80 % (rounded down) in file order train and
    the rest test. No random draw is made. The file keeps the samples of one writer together, so most test samples
    are by writers that training has not seen, which is harder and more honest than a shuffled split.
    Values 0..16 are scaled to 0..1.
    """
    x, y = _read()
    images = (x / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    train = np.zeros(len(y), dtype=bool)
    for label in range(10):
        members = np.flatnonzero(y == label)
        train[members[: len(members) * 4 // 5]] = True
    return FederatedData.from_arrays(
        images[train], y[train], images[~train], y[~train], classes=10, name="digits", mean=0.5, std=0.5
    )


def _read() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Pixels and labels. The file is read as it lies there: to import scikit-learn takes longer than a short run."""
    package = find_spec("sklearn")
    folders = package.submodule_search_locations if package else None
    file = Path(folders[0]) / "datasets/data/digits.csv.gz" if folders else None
    if file is None or not file.exists():
        from sklearn import datasets

        x, y = datasets.load_digits(return_X_y=True)
        return x, y
    table = np.loadtxt(file, delimiter=",")
    return table[:, :-1], table[:, -1].astype(np.int64)
