"""How far the runs of a study have come, and how many rounds of each count when some are not finished."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..runs.store import Record, RunDirectory
from .jobs import Job
from .plan import Cell
from .readings import readable
from .study import Study


class Runs:
    """Metrics of jobs, read once however many cells share them."""

    def __init__(self, root: Path, unfinished: bool = False) -> None:
        self._root, self._unfinished = root, unfinished
        self._read: dict[str, tuple[list[Record], bool]] = {}

    def of(self, job: Job) -> list[Record]:
        """The rounds of a run that counts: a finished one, or one that may be unfinished."""
        return self._found(job)[0]

    def is_finished(self, job: Job) -> bool:
        return self._found(job)[1]

    def planned(self, job: Job) -> int:
        """The rounds it has when it is finished."""
        return len(self.of(job)) if self.is_finished(job) else job.config.rounds

    def counts(self, job: Job) -> list[list[int]]:
        """Samples per client and class."""
        found: list[list[int]] = self._folder(job).header()["partition"]["counts"]
        return found

    def device(self, job: Job) -> str:
        """Where it was trained."""
        return str(self._folder(job).header()["device"])

    def timing(self, job: Job) -> list[Record]:
        """How long each of its rounds took."""
        return self._folder(job).timings()[: len(self.of(job))]

    def _folder(self, job: Job) -> RunDirectory:
        return RunDirectory(job.folder(self._root))

    def _found(self, job: Job) -> tuple[list[Record], bool]:
        if job.key not in self._read:
            finished = job.is_finished(self._root)
            counts = finished or self._unfinished
            self._read[job.key] = self._folder(job).records() if counts else [], finished
        return self._read[job.key]

    def equal_lengths(self, study: Study, cells: Sequence[Cell]) -> dict[str, int]:
        """Of cells that are compared and of which a run is unfinished: the rounds that the shortest run has.

        Cells that ask for the first so many rounds are compared at these.
        """
        groups: dict[str, list[tuple[int, bool]]] = {}
        for cell in cells:
            for job in cell.jobs.values():
                length = len(readable(study.read, self.of(job)))
                if length and "first" not in cell.axes:
                    groups.setdefault(compared(study, cell), []).append((length, self.is_finished(job)))
        return {
            group: min(length for length, _ in runs)
            for group, runs in groups.items()
            if not all(finished for _, finished in runs)
        }


def compared(study: Study, cell: Cell) -> str:
    """What a cell is compared within: its column, or its row in a study whose claims compare columns."""
    by_row = any(claim.get("compare") == "columns" for claim in study.claims)
    return cell.row.label if by_row else cell.column.label
