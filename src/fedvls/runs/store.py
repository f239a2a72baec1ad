"""A run on disk: config.yaml, header.json, metrics.jsonl, timing.jsonl, checkpoint/, result.json.

metrics.jsonl holds only what the configuration determines, so two runs of one seed have the same bytes there; clock
readings go to timing.jsonl.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import RunError
from .config import RunConfig, read_config
from .files import append_line, to_json, write_atomically

if TYPE_CHECKING:  # reading a run's numbers needs no torch
    import torch

    from .checkpoint import Snapshot

log = logging.getLogger("fedvls")
Record = dict[str, Any]


class RunDirectory:
    """One run's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @staticmethod
    def prepare(path: Path, config: RunConfig) -> RunDirectory:
        """Make the folder, or accept one that holds the same run; anything else there is an error."""
        try:
            if path.exists() and not path.is_dir():
                raise RunError(f"run directory {path} is a file; choose another --out")
            if (path / "config.yaml").exists():
                found = RunDirectory(path)
                different = config.differences(found.config())
                if different:
                    raise RunError(
                        f"{path} holds another run: {', '.join(different)}; choose another --out or remove it"
                    )
                return found
            if path.exists() and any(p.name != ".lock" for p in path.iterdir()):
                raise RunError(f"{path} is not empty and holds no run; choose another --out")
            path.mkdir(parents=True, exist_ok=True)
            write_atomically(path / "config.yaml", config.to_yaml().encode())
        except OSError as error:  # already looking is refused where a folder above is private
            raise RunError(f"cannot write run directory {path}: {error.strerror}") from None
        return RunDirectory(path)

    @staticmethod
    def existing(path: Path) -> RunDirectory:
        """A folder that holds a run, or an error that says what it is instead."""
        if not path.exists():
            raise RunError(f"no run at {path}: the folder does not exist")
        if not (path / "config.yaml").is_file():
            raise RunError(f"no run at {path}: it has no config.yaml")
        return RunDirectory(path)

    def config(self) -> RunConfig:
        where = self.path / "config.yaml"
        return RunConfig.from_mapping(read_config(where), str(where))

    @property
    def is_complete(self) -> bool:
        return (self.path / "result.json").exists()

    def header(self) -> Record:
        return self._read_json("header.json")

    def result(self) -> Record:
        return self._read_json("result.json")

    def write_header(self, header: Record) -> None:
        write_atomically(self.path / "header.json", to_json(header, indent=2).encode())

    def records(self) -> list[Record]:
        """The metrics of every round so far; a torn last line is not one."""
        return read_lines(self.path / "metrics.jsonl")

    def timings(self) -> list[Record]:
        return read_lines(self.path / "timing.jsonl")

    def append(self, record: Record, timing: Record) -> None:
        append_line(self.path / "timing.jsonl", to_json(timing))
        append_line(self.path / "metrics.jsonl", to_json(record))

    def save(self, snapshot: Snapshot) -> None:
        from .checkpoint import save_checkpoint

        save_checkpoint(self.path / "checkpoint", snapshot)

    def restore(self, device: torch.device) -> tuple[Snapshot | None, list[Record]]:
        """The newest good snapshot with the metrics up to it; later lines belong to rounds that will be run again."""
        from .checkpoint import load_checkpoint

        snapshot = load_checkpoint(self.path / "checkpoint", device)
        done = snapshot.round if snapshot else 0
        kept = [r for r in self.records() if r["round"] <= done]
        if [r["round"] for r in kept] != list(range(1, done + 1)):
            raise RunError(f"{self.path / 'metrics.jsonl'} lacks rounds before {done}; the run cannot be continued")
        for name, lines in (("metrics.jsonl", kept), ("timing.jsonl", self.timings()[:done])):
            write_atomically(self.path / name, "".join(to_json(line) + "\n" for line in lines).encode())
        return snapshot, kept

    def finish(self, result: Record) -> None:
        write_atomically(self.path / "result.json", to_json(result, indent=2).encode())

    def _read_json(self, name: str) -> Record:
        try:
            loaded: Record = json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RunError(f"cannot read {self.path / name}: {error}") from None
        return loaded


def read_lines(path: Path) -> list[Record]:
    """Whole JSON lines of a log, in order; reading stops at the first torn one."""
    records: list[Record] = []
    if not path.exists():
        return records
    for line in path.read_bytes().split(b"\n")[:-1]:
        try:
            records.append(json.loads(line))
        except ValueError:
            log.warning("%s: line %d is torn; it and what follows is ignored", path, len(records) + 1)
            break
    return records


def find_runs(paths: list[Path]) -> list[RunDirectory]:
    """The runs at these paths; a folder of runs stands for the runs in it."""
    found: list[RunDirectory] = []
    for path in paths:
        inner = sorted(p.parent for p in path.glob("*/config.yaml")) if path.is_dir() else []
        if inner and not (path / "config.yaml").is_file():
            found += [RunDirectory(p) for p in inner]
        else:
            found.append(RunDirectory.existing(path))
    return found


def fresh_folder(parent: Path, name: str) -> Path:
    """`parent/name`, or `parent/name-2`, ... : the first that does not exist."""
    path, number = parent / name, 1
    while path.exists():
        number += 1
        path = parent / f"{name}-{number}"
    return path
