"""Progress bars on standard error: what training and benchmarks show while they go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text


class Name(ProgressColumn):
    """The task's description, which is cut where a line is too long: better than a rate or a time."""

    def get_table_column(self) -> Column:
        return Column()  # one that may wrap is narrowed first

    def render(self, task: Task) -> Text:
        return Text(task.description, no_wrap=True, overflow="ellipsis")


def bar_columns(*texts: str) -> tuple[ProgressColumn, ...]:
    """Name, bar, these texts, time gone and left."""
    more = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    return Name(), BarColumn(bar_width=12), *map(TextColumn, texts), *more


@contextmanager
def progress_bars(*texts: str, transient: bool = False) -> Iterator[Progress]:
    """Bars with these texts; nothing at all when standard error is not a terminal."""
    console = Console(stderr=True)
    with Progress(
        *bar_columns(*texts), console=console, disable=not console.is_terminal, transient=transient
    ) as progress:
        yield progress
