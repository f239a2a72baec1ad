"""What every tracker does: choose the numbers, survive a server that is away, find its record again after a resume."""

from __future__ import annotations

import importlib
import json
import logging
import sys
from abc import abstractmethod
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..callbacks import Callback
from ..errors import RunError, UsageError
from ..runs.files import to_json, write_atomically

if TYPE_CHECKING:
    from ..runs.result import Result

log = logging.getLogger("fedvls")


class Tracker(Callback):
    """A callback that sends a run's numbers somewhere. A new one says how to open, log and close.

    Its package is imported when it is built, so a missing one is an error before the first round. After that training
    matters more: what fails while logging is said once, and the run goes on.
    """

    name = ""
    package = ""
    """The module it needs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._failed = False
        try:
            self.client_library: Any = importlib.import_module(self.package)
        except ImportError:
            raise UsageError(f"--log {self.name} needs its package: install fedvls[{self.name}]") from None

    @abstractmethod
    def open(self, title: str, choices: dict[str, Any], done: int) -> None:
        """Begin, or take up a record of which `done` rounds are there."""

    @abstractmethod
    def log(self, values: dict[str, float], round: int) -> None:
        """The numbers of one round."""

    @abstractmethod
    def close(self, summary: dict[str, float]) -> None:
        """The run is complete."""

    def on_start(self, header: dict[str, Any], rounds: int, done: int) -> None:
        try:
            with redirect_stdout(sys.stderr):  # standard output belongs to the command, which may print JSON
                self.open(self.folder.resolve().name, flat({**header, "rounds": rounds}), done)
        except Exception as error:
            raise RunError(f"{self.name} cannot be started: {' '.join(str(error).split())[:300]}") from error

    def on_round(self, record: dict[str, Any], timing: dict[str, Any]) -> None:
        self._attempt(lambda: self.log(round_values(record, timing), record["round"]))

    def on_end(self, result: Result) -> None:
        kept = ("best", "best_round", "last", "mean_last_five")
        self._attempt(lambda: self.close({key: float(result.summary()[key]) for key in kept}))

    def _attempt(self, action: Any) -> None:
        try:
            with redirect_stdout(sys.stderr):
                action()
        except Exception as error:
            if not self._failed:
                message = " ".join(str(error).split())[:300]
                log.warning("%s: %s; the run goes on, some numbers will be missing there", self.name, message)
            self._failed = True

    def remembered(self) -> str | None:
        """The record's identifier at the tracker, if the run was logged there before."""
        return self._identifiers().get(self.name)

    def remember(self, identifier: str) -> None:
        """Keep it in the run's folder, for a resume."""
        content = to_json({**self._identifiers(), self.name: identifier}, indent=2)
        write_atomically(self.folder / "trackers.json", content.encode())

    def _identifiers(self) -> dict[str, str]:
        path = self.folder / "trackers.json"
        try:
            return dict(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return {}


def round_values(record: dict[str, Any], timing: dict[str, Any]) -> dict[str, float]:
    """A round's record as flat numbers: `accuracy`, `local/vacant/after`, `domains/usps`, `time/seconds`, ..."""
    values: dict[str, Any] = {key: record[key] for key in ("accuracy", "loss", "train_loss")}
    values["updates_left_out"] = len(record["left_out"])
    for part in ("server", "domains"):
        values |= {f"{part}/{key}": value for key, value in record.get(part, {}).items()}
    if "local" in record:
        local = record["local"]
        values["local/drift_diversity"] = local["drift_diversity"]
        for moment in ("before", "after"):
            values |= {f"local/{group}/{moment}": value for group, value in local[moment].items()}
    values |= {f"time/{key}": timing[key] for key in ("seconds", "samples_per_second")}
    return {key: float(value) for key, value in values.items() if value is not None}


def flat(header: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The header's choices under dotted keys, without its long tables."""
    found: dict[str, Any] = {}
    for key, value in header.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{key}.")
        elif not isinstance(value, list) or len(value) <= 4:
            found[prefix + key] = value
    return found
