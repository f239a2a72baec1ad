"""Any module on a GPU: each client in a slot of its own, its step captured as a CUDA graph, the slots side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from ..augment import Augmentation
from ..data.resident import ResidentData
from ..lift import SAMPLES, OneByOne
from ..models.network import Network
from .base import ClientTask, RoundJob, Update
from .samples import Samples
from .schedule import by_length
from .stack import Stack
from .support import clients_that_fit

# More streams than this did not train faster on an H200, and each holds a client's activations.
MOST_SLOTS = 16


class GraphedEngine:
    """Slots take turns at launching; whoever finishes a client takes the next, the longest first."""

    name = "graphed"

    def __init__(self, network: Network, data: ResidentData, augmentation: Augmentation) -> None:
        self.network, self.device = network, data.device
        self.samples = Samples(network, data, augmentation)
        self.lifted = OneByOne(network, self.samples.some(SAMPLES))
        self._slots: list[tuple[Stack, torch.cuda.Stream]] = []

    def train(self, job: RoundJob, cohort: Sequence[ClientTask]) -> list[Update]:
        """Train the cohort; updates come back in its order."""
        if not cohort:  # a cluster of whose clients none was sampled
            return []
        waiting = by_length(job, cohort, batch_norm=self.network.has_batch_norm)
        slots = self._ready(job, waiting)
        queue = iter(waiting)
        finished: list[Callable[[], list[Update]]] = []
        here = torch.cuda.current_stream(self.device)
        for _, stream in slots:
            stream.wait_stream(here)
        active = [(stack, stream, self._work(stack, job, queue, finished)) for stack, stream in slots]
        while active:
            for slot in list(active):
                with torch.cuda.stream(slot[1]):
                    if next(slot[2], "done") == "done":
                        active.remove(slot)
        for _, stream in slots:
            here.wait_stream(stream)
        found = {update.client: update for updates in finished for update in updates()}
        return [found[task.client] for task in cohort]

    def close(self) -> None:
        """Give the memory back."""
        self._slots = []

    def _work(
        self, stack: Stack, job: RoundJob, queue: Iterator[ClientTask], finished: list[Callable[[], list[Update]]]
    ) -> Iterator[None]:
        """A slot's life: client after client from the queue."""
        for task in queue:
            yield from stack.train(job, [task])
            finished.append(stack.finish())

    def _ready(self, job: RoundJob, tasks: Sequence[ClientTask]) -> list[tuple[Stack, torch.cuda.Stream]]:
        """As many slots as there are clients, or as memory holds."""
        if not self._slots:
            self._add(job)
            stack, stream = self._slots[0]
            with torch.cuda.stream(stream):
                self._most = min(MOST_SLOTS, clients_that_fit(stack, job, tasks))
        while len(self._slots) < min(len(tasks), self._most):
            self._add(job)
        return self._slots[: len(tasks)]

    def _add(self, job: RoundJob) -> None:
        stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        with torch.cuda.stream(stream):
            stack = Stack(self.lifted, self.samples, job.start, 1, batch_norm=self.network.has_batch_norm)
        self._slots.append((stack, stream))
