"""The progress line in a narrow terminal."""

from __future__ import annotations

import io

from rich.console import Console
from rich.progress import Progress

from fedvls.terminal import bar_columns


def line(width: int, name: str) -> str:
    console = Console(width=width, file=io.StringIO())
    columns = bar_columns(width, "round {task.completed:.0f}/{task.total}", "{task.fields[rate]}")
    progress = Progress(*columns, console=console)
    progress.add_task(name, total=120, completed=30, rate="64.29 % 107,560 samples/s")
    with console.capture() as captured:
        console.print(progress.get_renderable())
    (text,) = captured.get().splitlines()
    return text


def test_80_columns_hold_method_and_seed():
    text = line(80, "fedvls:lam=0.5 seed 0")
    assert len(text) <= 80
    assert "…" not in text


def test_a_narrow_terminal_cuts_the_name_and_neither_rate_nor_time_left():
    name, rest = line(80, "stacked fedvls, repetition 3: cifar10-mobilenetv2").split("…")
    assert name.startswith("stacked fedvls")
    for whole in (" round 30/120 ", " 107,560 samples/s ", " left -:--:--"):
        assert whole in rest


def test_a_wide_terminal_shows_the_time_gone_too():
    text = line(120, "fedvls:lam=0.5 seed 0")
    assert text.rstrip().endswith("0:00:00 left -:--:--")
    assert "…" not in text
