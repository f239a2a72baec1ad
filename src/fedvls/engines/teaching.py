"""A teacher in train mode: its BatchNorm takes each minibatch's statistics, so it cannot see whole epochs at once."""

from __future__ import annotations

import torch
from torch import Tensor

from ..flat import Tensors, client_rows, copy_each
from ..lift.base import Lifted
from ..models.network import ModelState, Network
from .base import RoundJob


def teaches_by_minibatch(network: Network, job: RoundJob) -> bool:
    """Whether what the teacher says of a sample depends on the minibatch it is in."""
    return job.recipe.teacher_mode == "train" and network.has_batch_norm and "teacher_logits" in job.method.needs


class TeacherInTraining:
    """The received model once for every client of a stack.

    Its running statistics would drift, but in train mode nobody reads them: they are left alone.
    """

    def __init__(self, lifted: Lifted, start: ModelState, capacity: int) -> None:
        self.lifted = lifted
        self.rows, self.params = client_rows(start.params, capacity)

    def receive(self, start: ModelState) -> None:
        """Take the round's model."""
        copy_each({name: value[0] for name, value in self.params.items()}, start.params)
        self.rows[1:] = self.rows[0]

    @torch.no_grad()
    def logits(self, own: slice, frozen: Tensors, buffers: Tensors, x: Tensor, real: Tensor | None) -> Tensor:
        """Of one minibatch of each of the clients `own`, `[K, B, C]`; real: how many samples each has, if not all."""
        params = {name: value[own] for name, value in self.params.items()}
        return self.lifted.forward({**params, **frozen}, buffers, x, real, features=False, statistics=False).logits
