"""The progress line in a narrow terminal."""

from __future__ import annotations

import io

from rich.console import Console
from rich.progress import Progress

from fedvls.bars import bar_columns


def line(width: int) -> str:
    console = Console(width=width, file=io.StringIO())
    progress = Progress(
        *bar_columns("{task.completed:.0f}/{task.total} rounds", "{task.fields[rate]}"), console=console
    )
    progress.add_task("stacked fedvls: cifar10-mobilenetv2", total=12, completed=3, rate="60,135 samples/s")
    with console.capture() as captured:
        console.print(progress.get_renderable())
    (text,) = captured.get().splitlines()
    return text


def test_a_narrow_terminal_cuts_the_name_and_neither_rate_nor_times():
    text = line(80)
    assert len(text) <= 80
    name, rest = text.split("…")
    assert name.startswith("stacked fedvls")
    for whole in (" 3/12 rounds ", " 60,135 samples/s ", " 0:00:00 left -:--:--"):
        assert whole in rest


def test_a_wide_terminal_cuts_nothing():
    assert "…" not in line(120)
