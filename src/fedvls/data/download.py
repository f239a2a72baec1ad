"""Where data files live, and how missing ones are fetched: checked by their sum, and never left half-written."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..errors import DataError, UsageError
from .arrays import one_line

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

CONNECT_SECONDS, READ_SECONDS = 10, 30


def data_folder(data_dir: str | Path | None) -> Path:
    """The folder that holds data sets: the one given, else `$FEDVLS_DATA_DIR`, else `fedvls` in the user's cache."""
    given = data_dir or os.environ.get("FEDVLS_DATA_DIR")
    folder = Path(given or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "fedvls").expanduser().absolute()
    if folder.is_file():
        raise UsageError(f"data directory {folder} is a file: name a folder")
    return folder


def fetch(files: Mapping[str, str], base_urls: Sequence[str], into: Path, dataset: str) -> list[Path]:
    """Download `files` (name to checksum, such as `md5:...`) into a folder, trying each base URL in order.

    A file is written under a temporary name and renamed once its checksum is right; one that is already there and
    right is kept.
    """
    remedy = f"put {', '.join(files)} into {into} or name their folder with --data-dir"
    missing, was_there = f"{dataset} is not on this machine and", into.exists()
    try:
        import pooch
    except ImportError:
        raise DataError(f"{missing} downloading it needs pooch: install fedvls[download], or {remedy}") from None
    with _quiet(pooch.get_logger()), _display() as progress:
        for file, checksum in files.items():
            failures = []
            for base in base_urls:
                try:
                    pooch.retrieve(
                        url=base.rstrip("/") + "/" + file,
                        known_hash=checksum,
                        fname=file,
                        path=into,
                        downloader=pooch.HTTPDownloader(
                            progressbar=False if progress is None else _Bar(progress, file),
                            chunk_size=1 << 16,
                            timeout=(CONNECT_SECONDS, READ_SECONDS),
                            headers={"Accept-Encoding": "identity"},  # the sum is that of the file as it is stored
                        ),
                    )
                    break
                except (OSError, ValueError) as error:  # requests' errors are OSErrors, a wrong checksum a ValueError
                    failures.append(_reason(error, file, urlsplit(base).netloc, into))
            else:
                with contextlib.suppress(OSError):
                    if not was_there:
                        into.rmdir()  # unless other files came: nobody should find a folder without data in it
                reason = "; ".join(dict.fromkeys(failures)) or "no address is known"
                raise DataError(f"{missing} could not be downloaded ({reason}): {remedy}") from None
    return [into / file for file in files]


def _reason(error: Exception, file: str, host: str, into: Path) -> str:
    """Why a download failed, in a few words."""
    import requests

    match error:
        case requests.HTTPError():
            status = "an error" if error.response is None else error.response.status_code
            return f"{host} answered {status} for {file}"
        case requests.Timeout():
            return f"{host} did not answer in time"
        case requests.exceptions.ChunkedEncodingError():
            return f"{host} broke off while sending {file}"
        case requests.ConnectionError():
            return f"no connection to {host}"
        case requests.RequestException():
            return f"{host}: {one_line(error)}"
        case OSError():
            return f"{into} cannot be written: {error.strerror or one_line(error)}"
        case _ if "hash" in str(error):
            return f"{file} from {host} has the wrong checksum"
    return f"{host}: {one_line(error)}"


@contextlib.contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Keep pooch's own lines off the screen."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextlib.contextmanager
def _display() -> Iterator[Progress | None]:
    """Progress bars on stderr; None where nobody watches."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield progress


class _Bar:
    """One file's bar, with the four members pooch asks of a progress bar."""

    def __init__(self, progress: Progress, file: str) -> None:
        self._progress = progress
        self._task: TaskID = progress.add_task(file, total=None)

    @property
    def total(self) -> float | None:
        return self._progress.tasks[self._task].total

    @total.setter
    def total(self, size: int) -> None:
        self._progress.update(self._task, total=size or None)  # 0: the server did not say

    def update(self, size: int) -> None:
        self._progress.advance(self._task, size)

    def reset(self) -> None:
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        self._progress.stop_task(self._task)
