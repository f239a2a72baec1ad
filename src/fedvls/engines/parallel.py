"""The CPU engine: the cohort split over worker processes, one per core and one thread each.

Workers are forked once per run, so the data set, the model and the method (which may hold closures that cannot be
pickled) are simply there, shared and not copied. Each round a worker receives the global model and its clients, and
sends their updates back. Clients train one by one, those of a chain of Linear layers as stacks of one and all others as
in the sequential engine; or a worker's clients train together. Between rounds the same workers evaluate.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

import torch

from ..augment import Augmentation
from ..data.resident import ResidentData
from ..evaluation import Evaluation, Predictions, evaluate_each, judged, predict
from ..lift import chain_of
from ..method import Method
from ..models.network import ModelState, Network
from .base import ClientTask, Engine, RoundJob, Update
from .rehearsal import why_one_by_one
from .sequential import SequentialEngine
from .shares import TOGETHER, balanced
from .stacked import StackedEngine
from .workers import Workers


def cores() -> int:
    """Cores this process may use: what the system grants, or what `FEDVLS_CORES` says if several runs share them."""
    told = os.environ.get("FEDVLS_CORES", "")
    if told.isdecimal() and int(told) > 0:
        return int(told)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_supported(data: ResidentData) -> bool:
    """Forking needs a system that has it, and PyTorch's autograd cannot be forked once it has threads for a GPU."""
    return data.device.type == "cpu" and hasattr(os, "fork") and not torch.cuda.is_available()


class ParallelEngine:
    """Splits a cohort over processes; a cohort of one is trained where it is.

    whole: an engine that trains a worker's clients together, if not one by one.
    """

    def __init__(
        self,
        network: Network,
        data: ResidentData,
        augmentation: Augmentation,
        workers: int | None = None,
        whole: Engine | None = None,
    ) -> None:
        self.name = "parallel" if whole is None else whole.name
        self.network, self.data, self.augmentation = network, data, augmentation
        self._whole = whole
        self._count = workers or cores()
        self._workers: Workers | None = None
        self._method: Method | None = None

    def train(self, job: RoundJob, cohort: Sequence[ClientTask]) -> list[Update]:
        """Train the cohort; the updates come back in its order, whoever trained them."""
        if not cohort:  # a cluster of whose clients none was sampled
            return []
        if job.method is not self._method:
            self.close()
            self._method, self._trainer = job.method, self._whole or self._one_by_one(job, cohort)
        if min(self._count, len(cohort)) < 2:
            return list(self._train_here(job, cohort))
        if self._workers is None:
            self._workers = Workers(self._count, self._serve)
        # The method stays out of the message: workers have it already, and its closures cannot be pickled.
        message = {f.name: getattr(job, f.name) for f in fields(job) if f.name != "method"}
        together = TOGETHER if self._whole is not None else 0.0
        shares = [("train", message, share) for share in balanced(cohort, self._count, together)]
        answers = self._workers.ask(shares, f"round {job.round}")
        found = {update.client: update for answer in answers for update in answer}
        return [found[task.client] for task in cohort]

    def evaluate(self, states: Sequence[ModelState], classes: int) -> list[Evaluation]:
        """Each model on the whole test set: a model per message, or shares of its batches where models are few.

        Batches and the order in which they are summed are those of `fedvls.evaluation.evaluate`: so are the bits.
        """
        if self._workers is None:
            return evaluate_each(self.network, states, self.data, classes)
        ways = 1 if len(states) >= self._count else self._count
        asked = [("predict", state, slice(way, None, ways)) for state in states for way in range(ways)]
        answers = iter(self._workers.ask(asked, "evaluation"))
        predictions = (_interleaved([next(answers)[0] for _ in range(ways)]) for _ in states)
        return judged(predictions, self.data, classes)

    def close(self) -> None:
        """End the workers."""
        if self._workers is not None:
            self._workers.close()
        self._workers = self._method = None

    def _serve(self, message: tuple[Any, ...]) -> Iterator[Any]:
        """In a worker: do what the message says."""
        kind, what, which = message
        if kind == "predict":
            yield predict(self.network, what, self.data, which)
        else:
            assert self._method is not None
            yield from self._train_here(RoundJob(method=self._method, **what), which)

    def _train_here(self, job: RoundJob, tasks: Sequence[ClientTask]) -> Iterator[Update]:
        for some in [tasks] if self._whole is not None else [[task] for task in tasks]:
            yield from self._trainer.train(job, some)

    def _one_by_one(self, job: RoundJob, cohort: Sequence[ClientTask]) -> Engine:
        """The fastest way for one client: without autograd over the layers where there is one."""
        chain = chain_of(self.network, self.data.device)
        if chain is None or why_one_by_one(job, len(cohort[0].counts)) is not None:
            return SequentialEngine(self.network, self.data, self.augmentation)
        return StackedEngine(self.network, self.data, self.augmentation, most=1)


def _interleaved(shares: Sequence[Predictions]) -> Predictions:
    """All batches in order, from shares that hold every n-th of them."""
    together: Predictions = [(torch.empty(0), torch.empty(0))] * sum(map(len, shares))
    for first, share in enumerate(shares):
        together[first :: len(shares)] = share
    return together
