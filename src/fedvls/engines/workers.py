"""Worker processes of the CPU engine: forked, one thread each, asked by messages."""

from __future__ import annotations

import gc
import io
import multiprocessing
import os
import pickle
import signal
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any

import torch
from torch import Tensor

from ..errors import FedvlsError, RunError
from .allocation import keep_freed_memory

ANSWER, DONE, FAILED = "answer", "done", "failed"


class Workers:
    """Processes that hold all that the parent held when it forked them, shared and not copied.

    `serve(message)` runs in a worker and yields answers, each of which is sent at once, so that a worker never holds
    more than one.
    """

    def __init__(self, count: int, serve: Callable[[Any], Iterable[Any]]) -> None:
        self.count = count
        self._running: list[tuple[ForkProcess, Connection]] = []
        context = multiprocessing.get_context("fork")
        for _ in range(count):
            here, there = context.Pipe()
            parents = [here, *(pipe for _, pipe in self._running)]
            process = context.Process(target=_work, args=(serve, there, parents), daemon=True)
            with warnings.catch_warnings():
                # Python warns of forking beside threads: the progress bar's may hold a lock, but a worker takes none.
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
            there.close()
            self._running.append((process, here))

    def ask(self, messages: Sequence[Any], doing: str) -> list[list[Any]]:
        """The answers to each message, in the order of the messages; the next message goes to whoever is free.

        After an error, a worker's or Ctrl-C, no worker goes on by itself. `doing` is what the error names.
        """
        answers: list[list[Any]] = [[] for _ in messages]
        waiting = deque(enumerate(messages))
        idle, busy = deque(pipe for _, pipe in self._running), dict[Connection, int]()
        try:
            while waiting or busy:
                while waiting and idle:
                    number, message = waiting.popleft()
                    idle[0].send_bytes(packed(message))
                    busy[idle.popleft()] = number
                for ready in wait(list(busy)):
                    assert isinstance(ready, Connection)
                    kind, value = ready.recv()
                    if kind == ANSWER:
                        answers[busy[ready]].append(value)
                    elif kind == DONE:
                        del busy[ready]
                        idle.append(ready)
                    else:
                        raise value if isinstance(value, FedvlsError) else RuntimeError(value)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            dead = [f"{p.pid} (exit code {p.exitcode})" for p, _ in self._running if not p.is_alive()]
            self.close()
            raise RunError(
                f"{doing}: a worker process ended unexpectedly: {', '.join(dead) or 'unknown'}; the run can "
                "be resumed (was memory short?)"
            ) from None
        except BaseException:
            self.close()
            raise
        return answers

    def close(self) -> None:
        """End them."""
        for process, pipe in self._running:
            pipe.close()
            process.terminate()
        for process, _ in self._running:
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
        self._running = []


def _work(serve: Callable[[Any], Iterable[Any]], pipe: Connection, parents: Sequence[Connection]) -> None:
    """A worker's life: serve what comes until the parent closes its end, by will or by death."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in parents:
        other.close()
    torch.set_num_threads(1)
    keep_freed_memory()
    gc.freeze()  # a collection would touch all that the parent has made, and a page that is touched is copied
    while True:
        try:
            message = pipe.recv()
            for kind, value in _answers(serve, message):
                pipe.send_bytes(packed((kind, value)))
        except (EOFError, OSError):
            os._exit(0)


def _answers(serve: Callable[[Any], Iterable[Any]], message: Any) -> Iterable[tuple[str, Any]]:
    try:
        for answer in serve(message):
            yield ANSWER, answer
        yield DONE, None
    except FedvlsError as error:
        yield FAILED, error
    except Exception:
        yield FAILED, f"a worker process failed:\n{traceback.format_exc()}"


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
