"""The samples of some clients for some epochs, ready to be gathered: augmented, normalised, seen by the teacher."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from ..augment import Augmentation, draws
from ..data.resident import ResidentData
from ..lift import chain_of, inference
from ..lift.columns import Columns
from ..models.network import ModelState, Network
from ..numerics import half_precision
from .base import ClientTask, RoundJob, Tensors
from .teaching import teaches_by_minibatch

CHUNK = 8192


class Samples:
    """Prepares whole epochs at once: a large batch is many times cheaper per sample than a minibatch, and the teacher,
    in eval mode, does not mind the company a sample is in."""

    def __init__(self, network: Network, data: ResidentData, augmentation: Augmentation) -> None:
        self.network, self.data, self.augmentation = network, data, augmentation
        self._in_hand: tuple[Tensor, Tensor] | None = None

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
        indices = torch.cat([task.indices for task in tasks])
        x = self._inputs(job, tasks, indices, epoch)
        found = {"x": x, "y": self.data.y_train.index_select(0, indices)}
        sizes = [task.samples for task in tasks]
        if "teacher_features" in needs:
            logits, features = self._seen_by(job.start, x, sizes)
            found |= {"teacher_logits": logits, "teacher_features": features}
        elif "teacher_logits" in needs and not teaches_by_minibatch(self.network, job):
            found["teacher_logits"] = self._taught(job, tasks, x, sizes)
        if "previous_features" in needs:
            parts = zip(tasks, torch.split(x, sizes), torch.split(found["teacher_features"], sizes), strict=True)
            found["previous_features"] = torch.cat([self._previous(job, *part) for part in parts])
        return found

    def _inputs(self, job: RoundJob, tasks: Sequence[ClientTask], indices: Tensor, epoch: int) -> Tensor:
        """All clients' samples as the model takes them: what is done to one does not depend on the others.

        A CPU is slow at that. Where the same clients meet in every round, nothing is done twice.
        """
        if self._in_hand is not None and torch.equal(self._in_hand[0], indices):
            return self._in_hand[1]
        self._in_hand = None  # to make room
        chunks = torch.split(indices, CHUNK)
        stored = (self.data.stored(some) for some in chunks)
        if self.change:
            where = {"seed": job.seed, "round": job.round, "epoch": epoch}
            numbers = torch.cat([draws(self.augmentation, t.samples, client=t.client, **where) for t in tasks])
            rows = torch.split(to_device(numbers, self.data.device), CHUNK)
            stored = (self.augmentation(x, u) for x, u in zip(stored, rows, strict=True))
        if indices.device.type == "cpu":
            x = self._in_cache(stored, len(indices))
            self._in_hand = None if self.change else (indices, x)
            return x
        parts = [self.data.normalised(x) for x in stored]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def _in_cache(self, stored: Iterable[Tensor], count: int) -> Tensor:
        """So many samples normalised, a few at a time: what lies between two operations stays in a CPU's cache.

        Where all that is done to them is to multiply them in a short type, they are kept in it.
        """
        first = self.some(1)
        multiplied = first.is_floating_point() and isinstance(chain_of(self.network, first.device), Columns)
        short = half_precision() if multiplied else None
        most, end = self.data.batch_for_inference(first.numel()), 0
        out = first.new_empty(count, *first.shape[1:], dtype=short or first.dtype)
        for few in (few for some in stored for few in torch.split(some, most)):
            out[end : end + len(few)] = self.data.normalised(few)
            end += len(few)
        return out

    def _taught(self, job: RoundJob, tasks: Sequence[ClientTask], x: Tensor, sizes: Sequence[int]) -> Tensor:
        """The teacher's logits; 0 for clients whose loss does not depend on them, and no work."""
        if all(task.hears_teacher for task in tasks):
            return self._seen_by(job.start, x, sizes)[0]
        asked = [part for part, task in zip(torch.split(x, list(sizes)), tasks, strict=True) if task.hears_teacher]
        each = [len(part) for part in asked]
        if x.device.type == "cpu":  # which sees them apart anyway
            said = iter([self._seen_by(job.start, part, [len(part)])[0] for part in asked])
        else:
            said = iter(torch.split(self._seen_by(job.start, torch.cat(asked), each)[0], each) if asked else ())
        return torch.cat(
            [next(said) if t.hears_teacher else t.counts.new_zeros(t.samples, len(t.counts)) for t in tasks]
        )

    def _seen_by(self, state: ModelState, x: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Logits and features of several clients' samples.

        On a CPU each client's by themselves, and copied to where memory begins: products of other heights, or from
        other places in a cache line, are rounded differently, and a client's numbers should not depend on who shares
        its stack. A GPU wants few and large passes.
        """
        alone = x.device.type == "cpu"
        of_chain = chain_of(self.network, x.device) is not None
        most = self.data.batch_for_inference(x[0].numel(), of_chain=of_chain)
        parts = (part for own in (torch.split(x, list(sizes)) if alone else [x]) for part in torch.split(own, most))
        see = inference(self.network, state, x.device)
        logits, features = zip(*(see(part.clone() if alone else part) for part in parts), strict=True)
        return torch.cat(logits), torch.cat(features)

    def _previous(self, job: RoundJob, task: ClientTask, x: Tensor, teacher_features: Tensor) -> Tensor:
        """Features of the model the client ended with last time; at its first participation, of the one it received."""
        before = previous_model(task)
        return self._seen_by(job.start.updated(before), x, [len(x)])[1] if before else teacher_features


def previous_model(task: ClientTask) -> Tensors:
    """The tensors of the client's last local model, if it kept one."""
    return {k.removeprefix("previous/"): t for k, t in task.kept.items() if k.startswith("previous/")}


def pinned(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor where it can be copied from without making the host wait for the device."""
    return tensor.pin_memory() if device.type == "cuda" and not tensor.is_cuda else tensor


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A copy that does not make the host wait for the device; the tensor itself where it is there already."""
    return pinned(tensor, device).to(device, non_blocking=True)
