"""Progress bars on standard error: what training and benchmarks show while they go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


@contextmanager
def progress_bars(*columns: str, transient: bool = False) -> Iterator[Progress]:
    """Name, bar, these columns, time gone and left; nothing at all when standard error is not a terminal."""
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        *map(TextColumn, columns),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=transient,
    ) as progress:
        yield progress
