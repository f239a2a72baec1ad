"""Runs of a study's jobs as they lie on disk, without training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedvls.runs.files import to_json
from fedvls.runs.scores import scores
from fedvls.runs.store import RunDirectory
from fedvls.studies.jobs import Job

Records = Sequence[Mapping[str, Any]]


def made(
    job: Job, root: Path, records: Records, *, finished: bool, timing: Records = (), device: str = "cpu: x86_64"
) -> RunDirectory:
    """A run of a job with these rounds, under `root`."""
    run = RunDirectory.prepare(job.folder(root), job.config)
    run.write_header({"device": device})
    for name, lines in (("metrics", records), ("timing", timing)):
        (run.path / f"{name}.jsonl").write_text("".join(to_json(line) + "\n" for line in lines))
    if finished:
        run.finish({**scores([record["accuracy"] for record in records]), "rounds": len(records)})
    return run
