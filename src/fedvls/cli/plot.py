"""`fedvls plot`: the report's figures as files for papers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import UsageError


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: fedvls plot curves runs/compare -o curves.pdf")(plot)


def plot(
    kind: Annotated[str | None, typer.Argument(help="Which figure; without it they are listed.")] = None,
    run_dirs: Annotated[list[Path] | None, typer.Argument(help="Run folders, or folders of runs.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="png, svg or pdf (default: KIND.png).")] = None,
    width: Annotated[str | None, typer.Option(help="column (3.3 in) or page (7 in).")] = None,
    setting: Annotated[int | None, typer.Option(help="Which setting, if the runs have several.")] = None,
    seed: Annotated[int | None, typer.Option(help="Whose partition or matrix (default: the lowest).")] = None,
    client: Annotated[int | None, typer.Option(help="Whose confusion matrix (default: the first recorded).")] = None,
) -> None:
    """Figures as PNG, SVG or PDF, in the sizes and type of a two-column paper."""
    from ..report.figures.files import WIDTHS, check_ending
    from ..report.figures.kinds import KINDS, draw, find_kind

    if kind is None:
        for entry in KINDS.values():
            typer.echo(f"{entry.name:<10} {entry.summary}")
        return
    found = find_kind(kind)
    if width is not None and width not in WIDTHS:
        raise UsageError(f"--width {width!r} is not one of {', '.join(WIDTHS)}")
    if not run_dirs:
        raise UsageError(f"which runs? fedvls plot {kind} RUN_DIR...")
    path = out or Path(f"{kind}.png")
    check_ending(path)
    from ..report.bundle import collect_some
    from ..report.figures.view import view_of
    from ..runs.store import find_runs

    view = view_of(collect_some(find_runs(run_dirs)), setting, seed, client)
    typer.echo(f"figure: {draw(found, view, path, width)}")  # type: ignore[arg-type]
