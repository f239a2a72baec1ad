"""A client's minibatches: the same samples in the same order, augmented alike, whatever the engine."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ..augment import Augmentation, draws
from ..data.resident import ResidentData
from .base import ClientTask, RoundJob
from .batches import epoch_batches


def client_batches(
    data: ResidentData, augmentation: Augmentation, job: RoundJob, task: ClientTask, *, batch_norm: bool
) -> Iterator[tuple[int, Tensor, Tensor]]:
    """(epoch, inputs, labels) of every minibatch. A client's whole epoch is augmented at once, which is fastest."""
    recipe, steps = job.recipe, 0
    for epoch in range(recipe.epochs):
        where = {"seed": job.seed, "round": job.round, "client": task.client, "epoch": epoch}
        images = None
        if augmentation.width > 0:
            numbers = draws(augmentation, task.samples, **where)
            images = augmentation(data.stored(task.indices), numbers.to(data.device))
        for order in epoch_batches(task.samples, recipe.batch_size, batch_norm=batch_norm, **where):
            if recipe.max_steps is not None and steps == recipe.max_steps:
                return
            positions = torch.from_numpy(order).to(data.device)
            x, labels = _batch(data, task.indices[positions], images, positions)
            yield epoch, x, labels
            steps += 1


def _batch(data: ResidentData, chosen: Tensor, images: Tensor | None, positions: Tensor) -> tuple[Tensor, Tensor]:
    if images is None:
        return data.train_batch(chosen)
    return data.normalised(images.index_select(0, positions)), data.y_train.index_select(0, chosen)
