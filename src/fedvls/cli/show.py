"""`fedvls show`: what runs achieved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import RunError, UsageError

if TYPE_CHECKING:
    from ..report.tables import Row
    from ..runs.store import RunDirectory


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: fedvls show runs/compare --format markdown")(show)


def show(
    run_dirs: Annotated[list[Path], typer.Argument(help="Run folders, or folders of runs.")],
    format: Annotated[str, typer.Option(help="table, markdown, latex or json.")] = "table",
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    confusion: Annotated[int | None, typer.Option(help="Instead: this client's last confusion matrix.")] = None,
) -> None:
    """Best, last and mean-of-last-five accuracy; mean ± std over seeds."""
    from ..report.tables import FORMATS, summarise
    from ..runs.store import find_runs

    form = "json" if json else format
    if form not in FORMATS:
        raise UsageError(f"--format {form!r} is not one of {', '.join(FORMATS)}")
    runs = find_runs(run_dirs)
    if confusion is not None:
        for run in runs:
            _show_confusion(run, confusion, form)
        return
    rows = summarise(runs)
    if not rows:
        raise RunError(f"no finished round in {', '.join(map(str, run_dirs))}")
    print_rows(rows, form)


def print_rows(rows: list[Row], form: str) -> None:
    """A table per setting for the terminal, or text for a file."""
    from ..report.tables import SCORES, line, render
    from .studies import print_grid

    if form != "table":
        typer.echo(render(rows, form))
        return
    for setting in dict.fromkeys(row.setting for row in rows):
        lines = [line(row, without=("setting",)) for row in rows if row.setting == setting]
        print_grid([*lines[0]], [[*texts.values()] for texts in lines], len(lines[0]) - len(SCORES), title=setting)
    typer.echo("test accuracy in %")


def _show_confusion(run: RunDirectory, client: int, form: str) -> None:
    from ..runs.files import to_json

    for record in reversed(run.records()):
        matrix = record.get("local", {}).get("confusion", {}).get(str(client))
        if matrix is None:
            continue
        if form == "json":
            found = {"run": str(run.path), "round": record["round"], "client": client, "confusion": matrix}
            typer.echo(to_json(found))
            return
        typer.echo(
            f"{run.path}: client {client} after its update in round {record['round']}; rows true, columns predicted"
        )
        width = max(len(str(v)) for row in matrix for v in row) + 1
        for label, row in enumerate(matrix):
            typer.echo(f"{label:>4} " + "".join(f"{v or '·':>{width}}" for v in row))
        return
    if "deployment" in run.header():
        raise RunError(f"{run.path}: no confusion matrix in a deployment: the sites send none")
    raise RunError(
        f"{run.path} has no confusion matrix of client {client}; record it with: fedvls run --confusion {client}"
    )
