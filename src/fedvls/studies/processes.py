"""Jobs in worker processes of this machine: started once, fed through pipes, replaced when they die."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from ..engines import memory
from ..engines.parallel import cores
from ..errors import FedvlsError
from ..runs.config import RunConfig
from .execute import Backend, Ended
from .jobs import Job

ATTEMPTS = 3
PATIENCE = 20
"""Seconds that a worker has to end by itself."""


def processes(workers: int) -> Backend:
    """So many runs at a time, each with its share of the cores; a lost worker's job is given to a new one.

    A run in one core trains its clients one after another in its own process (`FEDVLS_CORES`), so that several runs
    do not start more processes than there are cores. On a GPU each plans with its share of the memory (`FEDVLS_RUNS`).
    """

    def run(jobs: Sequence[Job], root: Path) -> Iterator[Ended]:
        waiting, attempts = deque(jobs), Counter[str]()
        busy: dict[Connection, tuple[BaseProcess, Job]] = {}
        idle: list[tuple[BaseProcess, Connection]] = []
        try:
            while waiting or busy:
                while waiting and len(busy) < workers:
                    job = waiting.popleft()
                    attempts[job.key] += 1
                    try:
                        order = job.ready(root).to_mapping(), str(job.folder(root))
                    except FedvlsError as problem:
                        yield job, str(problem)
                        continue
                    process, pipe = idle.pop() if idle else _start(workers)
                    busy[pipe] = process, job
                    pipe.send(order)
                for pipe in [pipe for pipe in wait(list(busy)) if isinstance(pipe, Connection)]:
                    process, job = busy.pop(pipe)
                    try:
                        error: str | None = pipe.recv()
                    except (EOFError, ConnectionResetError):
                        process.join()
                        if attempts[job.key] < ATTEMPTS:
                            waiting.appendleft(job)
                        else:
                            yield job, f"its worker process ended {ATTEMPTS} times (exit code {process.exitcode})"
                        continue
                    idle.append((process, pipe))
                    yield job, error
        finally:
            _end([*idle, *((process, pipe) for pipe, (process, _) in busy.items())])

    return run


def _start(workers: int) -> tuple[BaseProcess, Connection]:
    # Spawned, not forked: the parent may hold threads and a CUDA context.
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_work, args=(there, workers))
    process.start()
    there.close()
    return process, here


def _end(running: Sequence[tuple[BaseProcess, Connection]]) -> None:
    """All are asked first, then waited for: a run leaves its folder, its processes and the GPU as Ctrl-C would."""
    for process, pipe in running:
        pipe.close()
        process.terminate()
    for process, _ in running:
        process.join(PATIENCE)
        if process.is_alive():
            process.kill()
            process.join()


def _work(pipe: Connection, workers: int) -> None:
    """A worker's life: run what comes, until the parent asks for its end or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Somebody who knows of other commands' runs on the GPU can say that there are more.
    share = {"FEDVLS_CORES": max(1, cores() // workers), "FEDVLS_RUNS": max(workers, memory.runs_at_once())}
    os.environ |= {name: str(value) for name, value in share.items()}
    try:
        _run_what_comes(pipe)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # on its way out already


def _run_what_comes(pipe: Connection) -> None:
    while True:
        try:
            values, folder = pipe.recv()
        except (EOFError, OSError):
            return
        error = run_mapping(values, Path(folder))
        memory.give_back()  # by now also that of the data, which the run still held at its end
        if memory.is_lost():
            sys.exit(f"the GPU failed {Path(folder).name}, perhaps after another program did; a new worker goes on")
        pipe.send(error)


def _end_with_parent() -> None:
    """A killed parent must not leave runs behind that nobody waits for, holding the locks of their folders."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(PATIENCE)
    os._exit(1)


def run_mapping(values: Mapping[str, Any], folder: Path) -> str | None:
    """Run a plain configuration into a folder; what went wrong, if anything did."""
    from ..federation import run_config
    from ..runs.imports import import_files

    try:
        config = RunConfig.from_mapping(values)
        import_files(config.imports)
        run_config(config, folder)
    except FedvlsError as error:
        return str(error)
    except Exception:
        return traceback.format_exc()
    return None
