"""Runs that differ only in how many rounds they have begin with the same rounds: trained once, used by each."""

from __future__ import annotations

import shutil
from pathlib import Path

from ..errors import FedvlsError
from ..method import from_spec
from ..runs.store import RunDirectory
from .jobs import Job


def take_beginning(job: Job, root: Path) -> tuple[str, int] | None:
    """Let a job that has not begun go on from the longest run beside it that is its beginning; its name and rounds.

    What is taken ends before the last round of either run: in its last round a run evaluates its clients' models and
    a method may finish the global one. So the job ends with the bits and the metrics it would have had alone.
    """
    folder = job.folder(root)
    if job.after is not None or (folder / "config.yaml").exists():
        return None
    others = [path.parent for path in root.glob(f"{job.name.removesuffix(job.key)}*/config.yaml")]
    found = [(rounds, other) for other in others if (rounds := _rounds_shared(job, RunDirectory(other)))]
    for rounds, other in sorted(found, reverse=True):
        if _copy(RunDirectory(other), job, folder, rounds):
            return other.name, rounds
    return None


def _rounds_shared(job: Job, other: RunDirectory) -> int:
    """The newest checkpoint of the other run that lies before the last round of both; 0 if it is no such run."""
    try:
        other_rounds = other.config().rounds
    except FedvlsError:  # a folder that somebody has changed is nobody's beginning
        return 0
    if other.path.name != Job(job.config.replaced(rounds=other_rounds)).name:
        return 0
    program = from_spec(job.config.method).program
    both = (other_rounds, job.config.rounds)
    if any(program.total_rounds(rounds) != rounds for rounds in both):
        return 0
    there = [int(mark.stem.removeprefix("round-")) for mark in (other.path / "checkpoint").glob("round-*.json")]
    return max((rounds for rounds in there if rounds < min(both)), default=0)


def _copy(other: RunDirectory, job: Job, folder: Path, rounds: int) -> bool:
    """The other run's first rounds as a run of this job; nothing if they are damaged."""
    from ..runs.checkpoint import read_checkpoint

    try:
        snapshot = read_checkpoint(other.path / "checkpoint", rounds)
        header, records, timings = other.header(), other.records()[:rounds], other.timings()[:rounds]
    except FedvlsError:
        return False
    if [record["round"] for record in records] != list(range(1, rounds + 1)):
        return False
    made = RunDirectory.prepare(folder, other.config().replaced(rounds=job.config.rounds))
    try:
        made.write_header(header)
        for record, timing in zip(records, timings, strict=True):
            made.append(record, timing)
        made.save(snapshot)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return True
