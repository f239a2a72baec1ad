"""`fedvls archive`: runs as small files, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

archive = typer.Typer(
    no_args_is_help=True,
    help="Runs as small files that can be kept beside the code (results/ in this project), and back.",
    epilog="Example: fedvls archive pack runs/studies/runs -o results",
)


def add_to(app: typer.Typer) -> None:
    app.add_typer(archive, name="archive")


@archive.command(epilog="Example: fedvls archive pack runs/studies/runs -o results")
def pack(
    run_dirs: Annotated[list[Path], typer.Argument(help="Run folders, or folders of runs.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the archive, e.g. results.")],
) -> None:
    """One file per run: all its numbers, no checkpoint, nothing of the machine. A shorter file of a run is replaced."""
    from ..runs.store import find_runs
    from ..studies.archive import pack as pack_run

    for run in find_runs(run_dirs):
        if not run.records():
            typer.echo(f"left out: {run.path} has no finished round", err=True)
            continue
        file, held, is_new = pack_run(run, out)
        typer.echo(f"{'written' if is_new else 'kept'}: {file} ({held})")


@archive.command(epilog="Example: fedvls archive unpack results -o runs/studies/runs")
def unpack(
    archives: Annotated[list[Path], typer.Argument(help="Files of an archive, or its folder.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the runs.")],
) -> None:
    """Run folders that show, report, plot and reproduce can read; without checkpoints they cannot be resumed."""
    from ..studies.archive import archived_files
    from ..studies.archive import unpack as unpack_run

    for file in archived_files(archives):
        folder, held, is_new = unpack_run(file, out)
        typer.echo(f"{'written' if is_new else 'kept'}: {folder} ({held})")
