"""A client's minibatches: the same samples in the same order, augmented alike, whatever the engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ..augment import Augmentation, draws
from ..data.resident import ResidentData
from .base import ClientTask, RoundJob
from .batches import dropout_keys, epoch_batches


class Minibatch(NamedTuple):
    """What a client takes a step on."""

    epoch: int
    x: Tensor
    labels: Tensor
    key: Tensor | None
    """Where dropout takes its masks from; None where the model has none."""


def client_batches(
    data: ResidentData, augmentation: Augmentation, job: RoundJob, task: ClientTask, *, batch_norm: bool, dropout: bool
) -> Iterator[Minibatch]:
    """Every minibatch. A client's whole epoch is augmented at once, which is fastest."""
    recipe, steps = job.recipe, 0
    for epoch in range(recipe.epochs):
        where = {"seed": job.seed, "round": job.round, "client": task.client, "epoch": epoch}
        images = None
        if augmentation.width > 0:
            numbers = draws(augmentation, task.samples, **where)
            images = augmentation(data.stored(task.indices), numbers.to(data.device))
        orders = epoch_batches(task.samples, recipe.batch_size, batch_norm=batch_norm, **where)
        keys = torch.from_numpy(dropout_keys(len(orders), **where)).to(data.device) if dropout else [None] * len(orders)
        for order, key in zip(orders, keys, strict=True):
            if recipe.max_steps is not None and steps == recipe.max_steps:
                return
            positions = torch.from_numpy(order).to(data.device)
            x, labels = _batch(data, task.indices[positions], images, positions)
            yield Minibatch(epoch, x, labels, key)
            steps += 1


def _batch(data: ResidentData, chosen: Tensor, images: Tensor | None, positions: Tensor) -> tuple[Tensor, Tensor]:
    if images is None:
        return data.train_batch(chosen)
    return data.normalised(images.index_select(0, positions)), data.y_train.index_select(0, chosen)
