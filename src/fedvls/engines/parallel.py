"""The CPU engine: the cohort split over worker processes, one per core and one thread each.

Workers are forked once per run, so the data set, the model and the method (which may hold closures that cannot be
pickled) are simply there, shared and not copied. Each round a worker receives the global model and its clients, and
sends their updates back. Clients of a linear chain train with the fused step, all others as in the sequential engine.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle
import signal
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import fields
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from typing import Any

import torch
from torch import Tensor

from ..augment import Augmentation
from ..data.resident import ResidentData
from ..errors import FedvlsError, RunError
from ..method import Method
from ..models.network import Network
from .base import ClientTask, RoundJob, Update
from .fused import FusedTrainer
from .sequential import SequentialEngine


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
    """Splits a cohort over processes; a cohort of one is trained where it is."""

    name = "parallel"

    def __init__(
        self, network: Network, data: ResidentData, augmentation: Augmentation, workers: int | None = None
    ) -> None:
        self._local = SequentialEngine(network, data, augmentation)
        self._fused = FusedTrainer(network, data, augmentation)
        self._count = workers or cores()
        self._workers: list[tuple[ForkProcess, Connection]] = []
        self._method: Method | None = None

    def train(self, job: RoundJob, cohort: Sequence[ClientTask]) -> list[Update]:
        """Train the cohort; the updates come back in its order, whoever trained them."""
        if min(self._count, len(cohort)) < 2:
            return self._train_here(job, cohort)
        if job.method is not self._method:
            self.close()
            self._fork(job.method)
        shares = balanced(cohort, len(self._workers))
        # The method stays out of the message: workers have it already, and its closures cannot be pickled.
        message = {f.name: getattr(job, f.name) for f in fields(job) if f.name != "method"}
        try:
            for (_, pipe), share in zip(self._workers, shares, strict=True):
                pipe.send_bytes(packed((message, share)))
            answers = [pipe.recv() for _, pipe in self._workers]
        except (EOFError, BrokenPipeError, ConnectionResetError):
            dead = [f"{p.pid} (exit code {p.exitcode})" for p, _ in self._workers if not p.is_alive()]
            self.close()
            raise RunError(
                f"round {job.round}: a worker process ended unexpectedly: {', '.join(dead) or 'unknown'}; the run can "
                "be resumed (was memory short?)"
            ) from None
        except BaseException:  # Ctrl-C: no worker may go on by itself
            self.close()
            raise
        for answer in answers:
            if isinstance(answer, str):
                self.close()
                raise RuntimeError(f"a worker process failed:\n{answer}")
            if isinstance(answer, FedvlsError):
                self.close()
                raise answer
        found = {update.client: update for answer in answers for update in answer}
        return [found[task.client] for task in cohort]

    def close(self) -> None:
        """End the workers."""
        for process, pipe in self._workers:
            pipe.close()
            process.terminate()
        for process, _ in self._workers:
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
        self._workers, self._method = [], None

    def _train_here(self, job: RoundJob, tasks: Sequence[ClientTask]) -> list[Update]:
        if not self._fused.supports(job.method):
            return self._local.train(job, tasks)
        return [self._fused.train_client(job, task) for task in tasks]

    def _fork(self, method: Method) -> None:
        context = multiprocessing.get_context("fork")
        for _ in range(self._count):
            here, there = context.Pipe()
            mine = [here, *(pipe for _, pipe in self._workers)]
            process = context.Process(target=self._work, args=(there, mine, method), daemon=True)
            with warnings.catch_warnings():
                # Python warns of forking beside threads: the progress bar's may hold a lock, but a worker takes none.
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
            there.close()
            self._workers.append((process, here))
        self._method = method

    def _work(self, pipe: Connection, parents: Sequence[Connection], method: Method) -> None:
        """A worker's life: train what comes until the parent closes its end, by will or by death."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for other in parents:
            other.close()
        torch.set_num_threads(1)
        while True:
            try:
                message, tasks = pipe.recv()
            except (EOFError, OSError):
                os._exit(0)
            try:
                answer: Any = self._train_here(RoundJob(method=method, **message), tasks)
            except FedvlsError as error:
                answer = error
            except BaseException:
                answer = traceback.format_exc()
            pipe.send_bytes(packed(answer))


class _ArrayPickler(pickle.Pickler):
    """Tensors as arrays inside the message. PyTorch's own way is a shared-memory file and an open descriptor for each
    tensor, of which a round of large models would need thousands."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return torch.from_numpy, (value.detach().contiguous().numpy(),)
        return NotImplemented


def packed(value: Any) -> bytes:
    """A message that `Connection.recv` understands."""
    buffer = io.BytesIO()
    _ArrayPickler(buffer, protocol=5).dump(value)
    return buffer.getvalue()


def balanced(cohort: Sequence[ClientTask], workers: int) -> list[list[ClientTask]]:
    """Shares of about equal numbers of samples: the largest client first, to whoever has least."""
    shares: list[list[ClientTask]] = [[] for _ in range(workers)]
    load = [0] * workers
    for task in sorted(cohort, key=lambda t: (-t.samples, t.client)):
        least = load.index(min(load))
        shares[least].append(task)
        load[least] += task.samples
    return shares
