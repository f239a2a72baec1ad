"""A job: one run of a study or sweep, known by a hash of its complete configuration."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ..errors import RunError
from ..method import from_spec
from ..models import complete_spec
from ..partition import get_partition
from ..runs.config import FREE, RunConfig
from ..runs.imports import import_files
from ..runs.store import RunDirectory

RESULT = "result.json"


@dataclass(frozen=True)
class Job:
    """A configuration to be run, and the job whose final weights it begins with, if any."""

    config: RunConfig
    after: Job | None = None

    @cached_property
    def key(self) -> str:
        """12 hexadecimal digits of everything that decides the run: defaults filled in, places and speed left out."""
        import_files(self.config.imports)
        plain = {k: v for k, v in self.config.to_mapping().items() if k not in FREE}
        plain["method"] = from_spec(self.config.method).spec
        seeds = {section: plain[section].pop("seed", None) for section in ("partition", "model")}
        classifier = plain["model"].pop("classifier", None)
        plain["model"] = {**complete_spec(plain["model"]), "classifier": classifier}
        partition = dict(plain["partition"])
        plain["partition"] = get_partition(partition.pop("name"), **partition).spec
        plain["data"] = {k: v for k, v in plain["data"].items() if k != "data_dir"}
        plain["seeds"] = seeds
        if self.after is not None:
            plain["start"] = f"job {self.after.key}"
        text = json.dumps(plain, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @cached_property
    def name(self) -> str:
        """The folder's name: what it is, for people, and the key, for the program."""
        config = self.config
        parts = [config.method.get("name"), Path(str(config.data.get("name"))).stem, config.partition.get("name")]
        parts += [config.partition["beta"]] if "beta" in config.partition else []
        words = [re.sub(r"[^\w.+-]+", "", str(part)) for part in parts]
        return "-".join([*words, f"s{config.seed}", self.key])

    def folder(self, root: Path) -> Path:
        return root / self.name

    def is_finished(self, root: Path) -> bool:
        """A result, and the metrics of all its rounds."""
        directory = RunDirectory(self.folder(root))
        if not directory.is_complete:
            return False
        try:
            return bool(len(directory.records()) == directory.result()["rounds"])
        except (RunError, KeyError):
            return False

    def ready(self, root: Path) -> RunConfig:
        """The configuration with the start weights where they are now."""
        if self.after is None:
            return self.config
        return self.config.replaced(start=str(final_weights(self.after.folder(root)).resolve()))


def final_weights(run: Path) -> Path:
    """The last checkpoint of a run."""
    found = sorted((run / "checkpoint").glob("round-*.safetensors"))
    if not found:
        raise RunError(f"{run} has no checkpoint to start from; remove the folder to have it run again")
    return found[-1]


def with_starts(jobs: Sequence[Job]) -> list[Job]:
    """Every job once, those that others start from first."""
    unique: dict[str, Job] = {}
    for job in jobs:
        if job.after is not None:
            unique.setdefault(job.after.key, job.after)
    for job in jobs:
        unique.setdefault(job.key, job)
    return list(unique.values())
