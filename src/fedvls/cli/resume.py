"""`fedvls resume`: continue a run that stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .run import report, train


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: fedvls resume runs/fedvls-digits-dirichlet-s0")(resume)


def resume(
    run_dir: Annotated[Path, typer.Argument(help="The run's folder.")],
    device: Annotated[str | None, typer.Option(help="Continue on another device.")] = None,
    data_dir: Annotated[str | None, typer.Option(help="Folder with the data sets' files, if it moved.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Continue a run; it ends bit-identical to one that never stopped."""
    from ..runs.imports import import_files
    from ..runs.store import RunDirectory

    directory = RunDirectory.existing(run_dir)
    config = directory.config()
    import_files(config.imports)
    if device is not None:
        config = config.replaced(device=device)
    if data_dir is not None:
        config = config.replaced(data={**config.data, "data_dir": data_dir})
    if directory.is_complete:
        typer.echo(f"{run_dir} is complete", err=True)
    report(train(config, run_dir), json)
