"""One run as one small file, so that numbers can be kept beside the code that made them.

`NAME.json.gz` holds a run's configuration, header, metrics, timing and result (null while it is unfinished), and
nothing of the machine: no data folder, and of absolute paths only the file's name. Checkpoints stay behind, so an
archived run can be read, tabulated and drawn, but not resumed. NAME is the run folder's.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from ..errors import FedvlsError, RunError, UsageError
from ..runs.config import RunConfig
from ..runs.files import exclusive, to_json, write_atomically
from ..runs.store import Record, RunDirectory
from .jobs import Job

FORMAT = 1
ENDING = ".json.gz"


@dataclass(frozen=True)
class ArchivedRun:
    """What the file holds."""

    config: Record
    header: Record
    metrics: list[Record]
    timing: list[Record]
    result: Record | None

    @staticmethod
    def of(run: RunDirectory) -> ArchivedRun:
        """A run's folder as it is now, finished or not."""
        metrics = run.records()
        log = run.path / "metrics.jsonl"
        if metrics and not log.read_bytes().startswith(_lines(metrics)):
            raise RunError(f"{log} was not written by this program: its numbers would change when they are written")
        config = run.config().to_mapping()
        config["data"] = {key: value for key, value in config["data"].items() if key != "data_dir"}
        header = run.header() if (run.path / "header.json").exists() else {}
        result = run.result() if run.is_complete else None
        return ArchivedRun(
            # files that register methods are not archived, so naming them would only stop those who read the numbers
            without_places({**config, "imports": []}),
            without_places(header),
            metrics,
            run.timings()[: len(metrics)],
            result,
        )

    @staticmethod
    def read(file: Path) -> ArchivedRun:
        """The run in a file, or one line that says what is wrong with the file."""
        try:
            loaded = json.loads(gzip.decompress(file.read_bytes()))
            if not isinstance(loaded, dict) or loaded.pop("format", None) != FORMAT:
                raise ValueError(f"it does not say format {FORMAT}")
            found = ArchivedRun(**loaded)
            found.check()
        except (OSError, EOFError, zlib.error, ValueError, TypeError, KeyError, FedvlsError) as error:
            raise RunError(f"{file} is not an archived run: {' '.join(str(error).split())}") from None
        return found

    def check(self) -> None:
        """Raise what is wrong with values that come from outside."""
        if not all(isinstance(part, dict) for part in (self.config, self.header, *self.metrics, *self.timing)):
            raise ValueError("config, header or a record is not a mapping")
        if [record["round"] for record in self.metrics] != list(range(1, len(self.metrics) + 1)):
            raise ValueError("its rounds are not 1, 2, 3, ...")
        RunConfig.from_mapping(self.config, "its config")

    def to_bytes(self) -> bytes:
        """Equal runs give equal bytes: no time and no name in gzip's own header."""
        buffer = io.BytesIO()
        with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0) as packed:
            packed.write(to_json({"format": FORMAT, **asdict(self)}).encode())
        return buffer.getvalue()

    def write_to(self, folder: Path) -> None:
        """Back to a run's folder; the result last, because it says that the run is complete."""
        config = RunConfig.from_mapping(self.config)
        if not (folder / "config.yaml").exists():
            RunDirectory.prepare(folder, config)
        with exclusive(folder):
            run = RunDirectory(folder)
            run.write_header(self.header)
            write_atomically(folder / "timing.jsonl", _lines(self.timing))
            write_atomically(folder / "metrics.jsonl", _lines(self.metrics))
            if self.result is not None:
                run.finish(self.result)

    def differs_from(self, other: ArchivedRun) -> str:
        """Why the two are not the same run, however far each has come; nothing if they are."""
        mine, theirs = (RunConfig.from_mapping(run.config) for run in (self, other))
        for difference in mine.differences(theirs):
            return difference
        for a, b in zip(self.metrics, other.metrics, strict=False):
            if a != b:
                return f"round {a['round']} has other numbers"
        return ""

    @property
    def progress(self) -> tuple[int, bool]:
        """How far it has come: rounds, and whether it ended."""
        return len(self.metrics), self.result is not None

    def __str__(self) -> str:
        done, ended = self.progress
        return f"{done} rounds" if ended else f"{done} of {self.config['rounds']} rounds"


def pack(run: RunDirectory, folder: Path) -> tuple[Path, ArchivedRun, bool]:
    """The file of a run in `folder`, what it holds, and whether it was written now.

    A file of the same run that has come as far is kept; one of another run is an error.
    """
    mine = ArchivedRun.of(run)
    file = folder / f"{run.path.resolve().name}{ENDING}"
    if file.exists():
        there = ArchivedRun.read(file)
        if why := mine.differs_from(there):
            raise RunError(f"{file} holds another run than {run.path}: {why}; remove it first to replace it")
        if mine.progress <= there.progress:
            return file, there, False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(file, mine.to_bytes())
    except OSError as error:
        raise RunError(f"cannot write {file}: {error.strerror}") from None
    return file, mine, True


def unpack(file: Path, root: Path) -> tuple[Path, ArchivedRun, bool]:
    """The folder of an archived run under `root`, the run, and whether it was written now.

    A folder with the same run that has come as far is kept; one with another run is an error.
    """
    run = ArchivedRun.read(file)
    folder = root / file.name.removesuffix(ENDING)
    if (folder / "config.yaml").exists():
        there = ArchivedRun.of(RunDirectory(folder))
        if why := run.differs_from(there):
            raise RunError(f"{folder} holds another run than {file}: {why}; choose another --out or remove it")
        if run.progress <= there.progress:
            return folder, there, False
    run.write_to(folder)
    return folder, run, True


def archived_files(paths: Sequence[Path]) -> list[Path]:
    """The files at these paths; a folder stands for the archived runs in it."""
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise UsageError(f"there is no archive at {path}")
        inner = sorted(path.glob(f"*{ENDING}")) if path.is_dir() else [path]
        if not inner:
            raise UsageError(f"{path} holds no archived run (*{ENDING}); pack some with: fedvls archive pack")
        found += inner
    return found


def archived(job: Job, archive: Path) -> Path | None:
    """The file of a job in an archive, if it is there."""
    file = archive / f"{job.name}{ENDING}"
    return file if file.is_file() else None


def archived_scales(archive: Path) -> set[tuple[str, float, int]]:
    """The number formats that archived runs were trained in, the share of the data, and the rounds they should have."""
    configs = [ArchivedRun.read(file).config for file in archived_files([archive])]
    return {(config["dtype"], config["data"].get("fraction", 1.0), config["rounds"]) for config in configs}


def take_from_archive(jobs: Iterable[Job], archive: Path, root: Path) -> int:
    """Unpack those of the jobs that the archive has and `root` lacks; how many of them the archive has."""
    if not archive.is_dir():
        raise UsageError(f"there is no archive at {archive}: name a folder of *{ENDING} files")
    files = [file for job in jobs if (file := archived(job, archive))]
    for file in files:
        unpack(file, root)
    return len(files)


def without_places(value: Any) -> Any:
    """Every absolute path in a plain value reduced to the file's name."""
    if isinstance(value, Mapping):
        return {key: without_places(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [without_places(inner) for inner in value]
    if isinstance(value, str) and any(kind(value).is_absolute() for kind in (PurePosixPath, PureWindowsPath)):
        return PureWindowsPath(value).name  # which knows both kinds of slashes
    return value


def _lines(records: Iterable[Record]) -> bytes:
    return "".join(f"{to_json(record)}\n" for record in records).encode()
