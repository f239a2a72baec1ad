"""Running jobs: here one after another, in worker processes, or on a Ray cluster. Finished ones are taken from disk."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ..callbacks import Callback
from ..errors import FedvlsError
from ..federation import run_config
from ..runs.imports import import_files
from .beginnings import take_beginning
from .jobs import Job, with_starts

log = logging.getLogger("fedvls")
Ended = tuple[Job, str | None]
"""A job that ended, and what was wrong if it has no result."""
Backend = Callable[[Sequence[Job], Path], Iterator[Ended]]


def execute(
    jobs: Sequence[Job], root: Path, backend: Backend, tell: Callable[[Job, str | None], None] = lambda *_: None
) -> dict[str, str]:
    """Run what is not finished under `root`, jobs that others start from first; why jobs have no result, by key.

    A job that fails does not stop the others: hours of work should not hang on one diverging cell.
    """
    failures: dict[str, str] = {}
    unfinished = [job for job in with_starts(jobs) if not job.is_finished(root)]
    for wave in (
        [job for job in unfinished if job.after is None],
        [job for job in unfinished if job.after is not None],
    ):
        ready = []
        for job in wave:
            if job.after is not None and job.after.key in failures:
                failures[job.key] = f"the run it starts from failed: {failures[job.after.key]}"
            else:
                ready.append(job)
        if not ready:
            continue
        root.mkdir(parents=True, exist_ok=True)
        for job in ready:
            if taken := take_beginning(job, root):
                log.info("%s goes on from round %d of %s", job.name, taken[1], taken[0])
        for job, error in backend(ready, root):
            if error is not None:
                failures[job.key] = error
            tell(job, error)
    return failures


def here(watch: Callable[[Job], Callback]) -> Backend:
    """One after another in this process, each with all cores."""

    def run(jobs: Sequence[Job], root: Path) -> Iterator[Ended]:
        for job in jobs:
            try:
                import_files(job.config.imports)
                run_config(job.ready(root), job.folder(root), [watch(job)])
                yield job, None
            except FedvlsError as error:
                yield job, str(error)

    return run
