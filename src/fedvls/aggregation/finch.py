"""FINCH: clustering by first neighbours, without a number of clusters to choose (Sarfraz et al., CVPR 2019)."""

from __future__ import annotations

import numpy as np


def finch(points: np.ndarray) -> np.ndarray:
    """Group numbers of the coarsest partition that has more than one cluster (or of the first one, if it has one).

    Cosine distance. Each point is linked with its nearest neighbour; connected components are clusters; clusters are
    merged the same way through their means, until one would remain or nothing merges.
    """
    if len(points) <= 1:
        return np.zeros(len(points), dtype=np.int64)
    groups = _components(points)
    while True:
        count = int(groups.max()) + 1
        if count == 1:
            return groups
        means = np.stack([points[groups == g].mean(0) for g in range(count)])
        merged = _components(means)
        if merged.max() in (0, count - 1):  # one cluster would remain, or nothing merged
            return groups
        groups = merged[groups]


def _components(points: np.ndarray) -> np.ndarray:
    """Connected components of the graph that links every point with its nearest neighbour.

    Points that share a neighbour are connected through it, so the links themselves suffice.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    unit = points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)
    distance = 1 - unit @ unit.T
    np.fill_diagonal(distance, np.inf)
    nearest = distance.argmin(1)
    links = coo_matrix((np.ones(len(points)), (np.arange(len(points)), nearest)), shape=distance.shape)
    _, labels = connected_components(links, directed=False)
    return np.asarray(labels, dtype=np.int64)
