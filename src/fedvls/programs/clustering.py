"""Clusters of clients with alike label distributions."""

from __future__ import annotations

import numpy as np

from .. import rng

RESTARTS, ITERATIONS = 10, 100


def cluster_label_distributions(
    counts: np.ndarray, clusters: int, seed: int, cap: float | None = None
) -> list[list[int]]:
    """k-means on the rows p_i = n_i / sum n_i; with `cap`, no cluster has more than int(cap * N / K) clients.

    Best of ten keyed starts. Clusters are sorted by their first client; none is empty.
    """
    points = counts / counts.sum(1, keepdims=True)
    limit = None if cap is None else max(int(cap * len(points) / clusters), -(-len(points) // clusters))
    best: tuple[float, np.ndarray] | None = None
    for restart in range(RESTARTS):
        first = rng.permutation(rng.key(seed, "clusters", restart), len(points))[:clusters]
        labels = _lloyd(points, points[first], limit)
        spread = sum(float(np.square(p - p.mean(0)).sum()) for p in _parts(points, labels, clusters) if len(p))
        if best is None or spread < best[0] - 1e-12:
            best = spread, labels
    assert best is not None
    members = [np.flatnonzero(best[1] == k).tolist() for k in range(clusters)]
    return sorted(m for m in members if m)


def _parts(points: np.ndarray, labels: np.ndarray, clusters: int) -> list[np.ndarray]:
    return [points[labels == k] for k in range(clusters)]


def _lloyd(points: np.ndarray, centres: np.ndarray, limit: int | None) -> np.ndarray:
    labels = np.full(len(points), -1)
    for _ in range(ITERATIONS):
        distance = np.square(points[:, None] - centres[None]).sum(-1)
        new = distance.argmin(1)
        if limit is not None:
            new = _expel(new, distance, limit)
        if (new == labels).all():
            break
        labels = new
        parts = _parts(points, labels, len(centres))
        centres = np.stack([p.mean(0) if len(p) else c for p, c in zip(parts, centres, strict=True)])
    return labels


def _expel(labels: np.ndarray, distance: np.ndarray, limit: int) -> np.ndarray:
    """Over-full clusters send their farthest points to the nearest cluster that has room."""
    labels = labels.copy()
    for k in range(distance.shape[1]):
        members = np.flatnonzero(labels == k)
        farthest_first = members[np.argsort(-distance[members, k], kind="stable")]
        for point in farthest_first[: max(len(members) - limit, 0)]:
            sizes = np.bincount(labels, minlength=distance.shape[1])
            labels[point] = np.where(sizes < limit, distance[point], np.inf).argmin()
    return labels
