"""What is shown on a terminal: tables of numbers, and progress on standard error while work goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich import box
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
from rich.table import Column, Table
from rich.text import Text


def number_table(title: str | None = None) -> Table:
    """A table without frames, which leaves 80 columns to what is in it."""
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)


class Name(ProgressColumn):
    """The task's description, which is cut where a line is too long: better than a rate or a time."""

    def get_table_column(self) -> Column:
        return Column()  # one that may wrap is narrowed first

    def render(self, task: Task) -> Text:
        return Text(task.description, no_wrap=True, overflow="ellipsis")


def bar_columns(width: int, *texts: str) -> tuple[ProgressColumn, ...]:
    """Name, bar, these texts, time gone (in a terminal of 100 columns and more) and time left."""
    roomy = width >= 100
    gone = (TimeElapsedColumn(),) if roomy else ()
    bar = BarColumn(bar_width=24 if roomy else 6)
    return Name(), bar, *map(TextColumn, texts), *gone, TextColumn("left"), TimeRemainingColumn()


@contextmanager
def progress_bars(*texts: str, transient: bool = False) -> Iterator[Progress]:
    """Bars with these texts; nothing at all when standard error is not a terminal."""
    console = Console(stderr=True)
    columns = bar_columns(console.width, *texts)
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=transient) as progress:
        yield progress
