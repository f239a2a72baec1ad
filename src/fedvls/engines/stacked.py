"""The whole cohort as one stack: parameters carry a leading client axis, and one kernel serves all clients."""

from __future__ import annotations

from collections.abc import Sequence

from ..augment import Augmentation
from ..data.resident import ResidentData
from ..lift import SAMPLES, lift
from ..models.network import ModelState, Network
from .base import ClientTask, RoundJob, Update
from .capture import aside, new_stream
from .samples import Samples
from .schedule import by_length
from .stack import Stack
from .support import clients_that_fit, say_turns


class StackedEngine:
    """Trains the cohort in as few stacks as memory allows, the longest clients first.

    most: clients in a stack, if there may not be as many as fit.
    """

    name = "stacked"

    def __init__(
        self, network: Network, data: ResidentData, augmentation: Augmentation, most: int | None = None
    ) -> None:
        self.network, self._limit = network, most
        self.samples = Samples(network, data, augmentation)
        self._stack: Stack | None = None
        self._most = 0
        self._stream = new_stream(data.device, urgent=True)

    def train(self, job: RoundJob, cohort: Sequence[ClientTask]) -> list[Update]:
        """Train the cohort; updates come back in its order."""
        if not cohort:  # a cluster of whose clients none was sampled
            return []
        tasks = by_length(job, cohort, batch_norm=self.network.has_batch_norm)
        found: dict[int, Update] = {}
        with aside(self._stream):
            stack = self._ready(job, tasks)
            for first in range(0, len(tasks), stack.capacity):
                for _ in stack.train(job, tasks[first : first + stack.capacity]):
                    pass
                found |= {update.client: update for update in stack.finish()()}
        return [found[task.client] for task in cohort]

    def close(self) -> None:
        """Give the memory back."""
        self._stack = None

    def _ready(self, job: RoundJob, tasks: Sequence[ClientTask]) -> Stack:
        """The stack of the last round if it is large enough, else a new one."""
        if self._stack is None or self._stack.capacity < min(len(tasks), self._most):
            self._stack = None
            self._most = self._limit or clients_that_fit(self._new(job.start, 1), job, tasks)
            say_turns(self._most, len(tasks), self.samples.data.device)
            self._stack = self._new(job.start, min(len(tasks), self._most))
        return self._stack

    def _new(self, start: ModelState, capacity: int) -> Stack:
        lifted = lift(self.network, self.samples.some(SAMPLES), self.samples.data.dtype)
        return Stack(lifted, self.samples, start, capacity, batch_norm=self.network.has_batch_norm)
