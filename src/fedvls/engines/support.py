"""What the fast engines can do, and how many clients fit in memory."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..lift import draws_on_its_own, samples_are_apart_in_evaluation
from ..models.dropout import KEYED, Keyed
from ..models.network import Network
from .base import ClientTask, Engine, RoundJob
from .capture import SELDOM
from .memory import free_memory
from .teaching import teaches_by_minibatch

if TYPE_CHECKING:
    from .stack import Stack

log = logging.getLogger("fedvls")

# More clients in a stack on a CPU take more memory and hardly less time: of 100 clients (`mlp`, FedVLS, 3 rounds of 5
# epochs) stacks of 4, 8, 16 and 64 took 33.9, 31.4, 31.2 and 29.4 s of processor time and 377, 424, 509 and 732 MiB.
CPU_STACK = 8


def obstacle(network: Network, job: RoundJob, samples: Tensor) -> str | None:
    """Why clients of this model cannot be trained with everything prepared beforehand; None if they can.

    samples: a few inputs, to find out whether the model draws random numbers on its own or looks across the batch.
    """
    if job.recipe.teacher_mode == "train":
        if network.has_dropout:
            return "teacher_mode = train: the teacher's dropout is drawn as it goes"
        if network.has_batch_norm and "teacher_features" in job.method.needs:
            return (
                "teacher_mode = train: the method compares features, and those of the teacher's BatchNorm depend on "
                "the minibatch"
            )
    if draws_on_its_own(network.prototype, samples):
        others = {type(m).__name__ for m in network.prototype.modules() if _draws_otherwise(m)}
        found = ", ".join(sorted(others)) or "in its forward"
        known = ", ".join(kind.__name__ for kind in KEYED)
        return f"the model draws random numbers as it goes ({found}); of layers that do, these can be keyed: {known}"
    whole_epochs = {"teacher_logits", "teacher_features", "previous_features"} & job.method.needs
    if teaches_by_minibatch(network, job):
        whole_epochs -= {"teacher_logits"}
    if whole_epochs and not samples_are_apart_in_evaluation(network.prototype, samples):
        return (
            "in evaluation mode, too, what the model says of a sample depends on the minibatch (a BatchNorm without "
            "running statistics, or a layer that looks across the batch), and the method asks such a model"
        )
    return None


def _draws_otherwise(module: nn.Module) -> bool:
    return isinstance(module, nn.modules.dropout._DropoutNd) and not isinstance(module, Keyed) and module.p > 0


def clients_that_fit(trial: Stack, job: RoundJob, tasks: Sequence[ClientTask]) -> int:
    """How many clients at once memory holds, from what one step of one client takes."""
    if trial.device.type != "cuda":
        return CPU_STACK
    torch.cuda.synchronize(trial.device)
    torch.cuda.reset_peak_memory_stats(trial.device)
    before = torch.cuda.memory_allocated(trial.device)
    one_step(trial, job, tasks[0])
    taken = torch.cuda.max_memory_allocated(trial.device) - before + 3 * trial.weights.nbytes
    return max(1, free_memory(trial.device) // max(taken, 1))


def say_turns(fit: int, clients: int, device: torch.device) -> None:
    """On a GPU a stack's sums are dealt out by how many clients are at hand, so where memory decides how many that are,
    it decides the last bits."""
    if device.type == "cuda" and fit < clients:
        log.warning(
            "the GPU's free memory holds %d of %d clients at a time: they take turns, and the last bits are not those "
            "of a run in which all fit",
            fit,
            clients,
        )


def why_not_captured(engine: Engine, job: RoundJob, task: ClientTask) -> str | None:
    """What stands in the way of this model's and method's step, captured on CUDA, found by trying it on a client."""
    on_cuda = task.indices.device.type == "cuda"
    few = replace(job.recipe, epochs=SELDOM + 2, max_steps=SELDOM + 2)
    try:
        engine.train(replace(job, recipe=few), [task])
        if on_cuda:
            torch.cuda.synchronize(task.indices.device)
    except RuntimeError as error:
        return f"{'capturing ' if on_cuda else ''}a step failed ({' '.join(str(error).split())[:160]})"
    finally:
        engine.close()
    return None


def one_step(stack: Stack, job: RoundJob, task: ClientTask) -> None:
    """A client's first step."""
    next(stack.train(job, [task]), None)
    if stack.device.type == "cuda":
        torch.cuda.synchronize(stack.device)
