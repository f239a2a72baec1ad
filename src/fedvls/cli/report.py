"""`fedvls report`: runs as one interactive page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: fedvls report runs/compare -o report.html")(report)


def report(
    run_dirs: Annotated[list[Path], typer.Argument(help="Run folders, or folders of runs.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="Heading (default: what was run).")] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Instead: show the page on this machine, and refresh it as rounds arrive.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="With --serve; 0 takes a free one.")] = 8765,
) -> None:
    """Curves, heat maps, confusion, drift, speed and every hidden choice in one file that needs no network."""
    from ..runs.store import find_runs

    if serve:
        from ..report.serve import serve_page

        find_runs(run_dirs)  # a wrong path is said now
        serve_page(run_dirs, title, port, typer.echo)
        return
    from ..report.html import write_page

    typer.echo(f"report: {write_page(find_runs(run_dirs), out, title)}")
