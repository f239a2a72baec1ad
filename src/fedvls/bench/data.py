"""The data of a workload: the real set where it can be had, else images of its shape that a model can learn."""

from __future__ import annotations

import numpy as np

from .. import rng
from ..data import FederatedData, load_dataset
from ..errors import DataError, UsageError
from .workloads import Workload

GENERATED = "generated"
TEMPLATES_PER_CLASS = 4
NOISE = 0.75
"""Weight of the noise in a generated pixel; the rest is the template's."""


def workload_data(
    workload: Workload, dataset: str | None, data_dir: str | None, seed: int
) -> tuple[FederatedData, str]:
    """The data and a few words on what they are.

    dataset: a name or path instead of the workload's own, or "generated". Without it and without a `data_dir`, a set
    that cannot be loaded is replaced by a generated one; a place that the user named must hold what it should.
    """
    if dataset == GENERATED:
        return generated(workload, seed), "generated data of the real shape"
    try:
        data = load_dataset(dataset or workload.dataset, data_dir=data_dir)
    except DataError:
        if dataset or data_dir:
            raise
        return generated(workload, seed), f"generated data of the real shape ({workload.dataset} is not here)"
    return _fitted(workload, data), f"real data ({data.name})"


def _fitted(workload: Workload, data: FederatedData) -> FederatedData:
    """The first samples of real data, in the shape and scale of the workload."""
    shape = data.sample_shape if len(data.sample_shape) == 3 else (1, *data.sample_shape)
    wanted = (workload.image, workload.classes, np.dtype(np.uint8))
    if (shape, data.classes, data.x_train.dtype) != wanted:
        raise UsageError(
            f"data set {data.name!r} has {data.classes} classes and {data.x_train.dtype} samples of shape {shape}; "
            f"workload {workload.name!r} needs {workload.classes} classes and uint8 of shape {workload.image}"
        )
    if len(data.y_train) < workload.train or len(data.y_test) < workload.test:
        raise UsageError(
            f"data set {data.name!r} has {len(data.y_train)} training and {len(data.y_test)} test samples; workload "
            f"{workload.name!r} needs {workload.train} and {workload.test}: ask for fewer with --samples"
        )
    train, test = workload.train, workload.test
    x, x_test = data.x_train[:train].reshape(train, *shape), data.x_test[:test].reshape(test, *shape)
    return _data(workload, data.name, x, data.y_train[:train], x_test, data.y_test[:test])


def generated(workload: Workload, seed: int = 0) -> FederatedData:
    """Every class is a few coarse patterns under strong noise: learnable, and not at once."""
    channels, height, width = workload.image
    cell = 4
    kinds = workload.classes * TEMPLATES_PER_CLASS
    coarse = (kinds, channels, -(-height // cell), -(-width // cell))
    patterns = rng.uniform(rng.key(seed, "bench", "patterns"), coarse).repeat(cell, 2).repeat(cell, 3)
    patterns = (255 * (1 - NOISE) * patterns[:, :, :height, :width]).astype(np.uint8)
    parts = list[np.ndarray]()
    for part, samples in (("train", workload.train), ("test", workload.test)):
        kind = rng.key(seed, "bench", part, "kinds").random_raw(samples) % kinds
        noise = _bytes(rng.key(seed, "bench", part, "noise"), samples * channels * height * width)
        x = (noise * NOISE).astype(np.uint8).reshape(samples, *workload.image)
        x += patterns[kind]
        parts += [x, (kind % workload.classes).astype(np.int64)]
    return _data(workload, f"generated-{workload.dataset}", *parts)


def _bytes(bits: np.random.Philox, n: int) -> np.ndarray:
    """Random bytes as float32."""
    return bits.random_raw(-(-n // 8)).view(np.uint8)[:n].astype(np.float32)


def _data(workload: Workload, name: str, *arrays: np.ndarray) -> FederatedData:
    x, y, x_test, y_test = arrays
    return FederatedData.from_arrays(
        *(x, y, x_test, y_test), classes=workload.classes, name=name, mean=workload.mean, std=workload.std
    )
