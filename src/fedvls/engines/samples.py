"""The samples of some clients for some epochs, ready to be gathered: augmented, normalised, seen by the teacher."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..augment import Augmentation, draws
from ..data.resident import ResidentData
from ..lift import inference
from ..models.network import ModelState, Network
from .base import ClientTask, RoundJob, Tensors

CHUNK = 8192


class Samples:
    """Prepares whole epochs at once: a large batch is many times cheaper per sample than a minibatch, and the teacher,
    in eval mode, does not mind the company a sample is in."""

    def __init__(self, network: Network, data: ResidentData, augmentation: Augmentation) -> None:
        self.network, self.data, self.augmentation = network, data, augmentation

    @property
    def change(self) -> bool:
        """Whether every epoch has its own images."""
        return self.augmentation.width > 0

    def some(self, count: int) -> Tensor:
        """The first samples, as the model takes them."""
        first = torch.arange(min(count, len(self.data.y_train)), device=self.data.device)
        return self.data.normalised(self.data.stored(first))

    @torch.no_grad()
    def prepare(self, job: RoundJob, tasks: Sequence[ClientTask], epoch: int) -> Tensors:
        """Inputs `x`, labels `y` and whatever of the teacher and of previous models the method needs, client after
        client."""
        needs = job.method.needs
        inputs = [self._inputs(job, task, epoch) for task in tasks]
        found = {
            "x": torch.cat(inputs),
            "y": self.data.y_train.index_select(0, torch.cat([task.indices for task in tasks])),
        }
        if needs & {"teacher_logits", "teacher_features"}:
            logits, features = self._seen_by(job.start, inputs)
            found |= {"teacher_logits": logits}
            if "teacher_features" in needs:
                found |= {"teacher_features": features}
        if "previous_features" in needs:
            parts = torch.split(found["teacher_features"], [len(x) for x in inputs])
            found["previous_features"] = torch.cat(
                [self._previous(job, task, x, own) for task, x, own in zip(tasks, inputs, parts, strict=True)]
            )
        return found

    def _inputs(self, job: RoundJob, task: ClientTask, epoch: int) -> Tensor:
        if not self.change:
            return self.data.normalised(self.data.stored(task.indices))
        numbers = draws(
            self.augmentation, task.samples, seed=job.seed, round=job.round, client=task.client, epoch=epoch
        )
        numbers = to_device(numbers, self.data.device)
        parts = [
            self.data.normalised(self.augmentation(self.data.stored(some), u))
            for some, u in zip(torch.split(task.indices, CHUNK), torch.split(numbers, CHUNK), strict=True)
        ]
        return torch.cat(parts)

    def _seen_by(self, state: ModelState, inputs: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Logits and features of several clients' samples.

        On a CPU each client's by themselves: products of other heights are rounded differently, and a client's numbers
        should not depend on who shares its stack. A GPU wants few and large passes.
        """
        together = inputs if self.data.device.type == "cpu" else [torch.cat(list(inputs))]
        parts = [part for x in together for part in torch.split(x, self.data.batch_for_inference(x[0].numel()))]
        see = inference(self.network, state, parts[0].device)
        logits, features = zip(*(see(part) for part in parts), strict=True)
        return torch.cat(logits), torch.cat(features)

    def _previous(self, job: RoundJob, task: ClientTask, x: Tensor, teacher_features: Tensor) -> Tensor:
        """Features of the model the client ended with last time; at its first participation, of the one it received."""
        before = previous_model(task)
        return self._seen_by(job.start.updated(before), [x])[1] if before else teacher_features


def previous_model(task: ClientTask) -> Tensors:
    """The tensors of the client's last local model, if it kept one."""
    return {k.removeprefix("previous/"): t for k, t in task.kept.items() if k.startswith("previous/")}


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A copy that does not make the host wait for the device."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor
