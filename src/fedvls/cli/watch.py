"""`fedvls watch`: live curves in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: fedvls watch runs/first")(watch)


def watch(
    run_dirs: Annotated[list[Path], typer.Argument(help="Run folders, or folders of runs.")],
    once: Annotated[bool, typer.Option("--once", help="Show how things stand, and end.")] = False,
    ascii: Annotated[bool, typer.Option("--ascii", help="Plain letters instead of braille dots.")] = False,
) -> None:
    """Follow runs while they go on; ends when they are complete."""
    from rich.console import Console

    from ..report.watch import watch_runs

    console = Console(highlight=False)
    plain = ascii or not console.encoding.lower().startswith("utf")
    watch_runs(run_dirs, once, plain, console)
