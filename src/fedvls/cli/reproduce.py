"""`fedvls reproduce`: the paper's tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import UsageError
from .options import split_list
from .studies import (
    Format,
    On,
    Place,
    RayAddress,
    Workers,
    backend,
    check_format,
    print_grid,
    report_failures,
    whole_numbers,
)

if TYPE_CHECKING:
    from ..studies.plan import Scale
    from ..studies.reproduce import Selection
    from ..studies.table import StudyTable

PAPER, DIFFERENCE = "  paper", "  difference"


def add_to(app: typer.Typer) -> None:
    app.command(
        epilog="Example: fedvls reproduce dirichlet --dataset mnist --beta 0.05 --methods fedavg,fedvls --seeds 0"
    )(reproduce)


def reproduce(
    name: Annotated[str | None, typer.Argument(help="A study; without one, all are listed.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Only these data sets, separated by commas.")] = None,
    beta: Annotated[str | None, typer.Option(help="Only these Dirichlet concentrations.")] = None,
    methods: Annotated[str | None, typer.Option(help="Only these methods.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only these values of another axis, e.g. model=resnet18 (repeatable).")
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Seeds (default: the study's).")] = None,
    rounds: Annotated[int | None, typer.Option(help="At most so many rounds: scaled down, and labelled so.")] = None,
    fraction: Annotated[
        float | None, typer.Option(help="This share of the training data: scaled down, and labelled so.")
    ] = None,
    score: Annotated[str, typer.Option(help="best, last or mean_last_five.")] = "best",
    from_disk: Annotated[bool, typer.Option("--from-disk", help="Run nothing: the table of what is finished.")] = False,
    from_archive: Annotated[
        Path | None,
        typer.Option(
            help="Run nothing: the runs are in this archive (results/ in this project). Without NAME: every study."
        ),
    ] = None,
    unfinished: Annotated[
        bool,
        typer.Option("--unfinished", help="With --from-...: count runs as far as they have come, and label them so."),
    ] = False,
    cost: Annotated[
        bool,
        typer.Option("--cost", help="Run nothing: how many minutes the finished runs took, cell by cell."),
    ] = False,
    data_dir: Annotated[str | None, typer.Option(help="Folder with the data sets' files.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for runs, tables and figures.")] = Path("runs/studies"),
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda.")] = None,
    engine: Annotated[str | None, typer.Option(help="auto, sequential, parallel, stacked or graphed.")] = None,
    dtype: Annotated[
        str | None, typer.Option(help="float32, float64, tf32 or bf16; all but the first are labelled.")
    ] = None,
    workers: Workers = None,
    on: On = Place.here,
    ray_address: RayAddress = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Change any key of the config; labelled (repeatable).")
    ] = None,
    format: Format = "table",
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Run a study of the paper, or part of it, and set the numbers beside the published ones."""
    from ..report.tables import SCORES
    from ..studies.archive import take_from_archive
    from ..studies.plan import Scale
    from ..studies.reproduce import choose_cells
    from ..studies.reproduce import reproduce as run_study

    form = "json" if json else format
    check_format(form)
    if score not in SCORES:
        raise UsageError(f"--score {score!r} is not one of {', '.join(SCORES)}")
    if from_disk and from_archive:
        raise UsageError("--from-disk and --from-archive: give one of them")
    if unfinished and not (from_disk or from_archive or cost):
        raise UsageError("--unfinished needs --from-disk or --from-archive: otherwise what is unfinished is finished")
    if cost and name is None:
        raise UsageError("--cost needs a study: fedvls reproduce NAME --cost")
    wanted = _wanted({"dataset": dataset, "beta": beta, "method": methods}, only or [])
    place = {"data_dir": data_dir and str(Path(data_dir).expanduser().resolve()), "device": device, "engine": engine}
    changes = [*(settings or []), *([f"dtype={dtype}"] if dtype not in (None, "float32") else [])]
    scale = Scale(rounds, fraction, tuple(changes), {k: v for k, v in place.items() if v is not None})
    if name is None:
        if from_archive is None:
            _list(form)
        elif wanted or seeds:
            raise UsageError("choosing cells or seeds needs a study: fedvls reproduce NAME --from-archive ...")
        else:
            _rebuild_every(from_archive, out, scale, score)
        return
    selection = choose_cells(name, wanted, whole_numbers(seeds, "--seeds") if seeds else None, scale)
    if from_archive:
        found = take_from_archive(selection.jobs, from_archive, out / "runs")
        typer.echo(f"{len(selection.jobs)} runs: {found} in {from_archive}", err=True)
    if cost:
        _print_cost(selection, out / "runs", unfinished, form)
        return
    if from_disk or from_archive or not selection.study.trains:
        table, files = run_study(selection, out, None, score, unfinished=unfinished)
    else:
        with backend(selection.jobs, out / "runs", workers, on, ray_address) as (chosen, tell):
            table, files = run_study(selection, out, chosen, score, tell)
    if form == "table":
        _print(table)
    else:
        from ..studies.render import render

        typer.echo(render(table, form))
    for file in files:
        typer.echo(f"written: {file}", err=True)
    report_failures([entry.failure for entry in table.entries.values() if entry.failure])


def _rebuild_every(archive: Path, out: Path, scale: Scale, score: str) -> None:
    """One line per study of which the archive has runs, and one for the runs that are in none."""
    from ..studies.archive import archived, archived_files, take_from_archive
    from ..studies.reproduce import archived_selections
    from ..studies.reproduce import reproduce as run_study

    others = set(archived_files([archive]))  # a folder without runs is said now
    for selection in archived_selections(archive, scale):
        found = take_from_archive(selection.jobs, archive, out / "runs")
        _, files = run_study(selection, out, None, score, unfinished=True)
        folder, names = files[0].parent, ", ".join(file.name for file in files)
        typer.echo(f"{selection.study.name}: {found} run{'s' * (found > 1)} -> {folder}: {names}")
        others -= {archived(job, archive) for job in selection.jobs}
    if others:
        typer.echo(
            f"in none of these tables: {len(others)} of the runs in {archive} (with changes of their own: "
            "name the study and --set)",
            err=True,
        )


def _print_cost(selection: Selection, root: Path, unfinished: bool, form: str) -> None:
    from ..studies.cost import caption, cost, grid, render

    if not selection.study.trains:
        raise UsageError(f"study {selection.study.name!r} trains nothing: it costs nothing")
    table = cost(selection.study, selection.cells, root, unfinished)
    if form != "table":
        typer.echo(render(table, form))
        return
    print_grid(*grid(table), left=1)
    typer.echo(caption(table))


def _wanted(shorthands: dict[str, str | None], only: list[str]) -> dict[str, list[str]]:
    """Axis -> values asked for."""
    wanted = {axis: split_list(text, f"--{axis}") for axis, text in shorthands.items() if text is not None}
    for text in only:
        axis, equals, values = text.partition("=")
        if not equals:
            raise UsageError(f"--only {text!r} must look like axis=value,value, e.g. model=resnet18")
        wanted[axis.strip()] = split_list(values, f"--only {axis}")
    return wanted


def _list(form: str) -> None:
    from ..report.tables import csv_grid, latex_grid, markdown_grid
    from ..runs.files import to_json
    from ..studies.reproduce import catalogue

    studies = catalogue()
    heads = ["study", "what", "cells", "runs", "published"]
    lines = [[s["name"], s["title"], str(s["cells"]), str(s["runs"]), s["published"]] for s in studies]
    if form == "json":
        typer.echo(to_json(studies, indent=2))
    elif form == "csv":
        typer.echo(csv_grid(heads, lines))
    elif form != "table":
        typer.echo((markdown_grid if form == "markdown" else latex_grid)(heads, lines, 3))
    else:
        print_grid(heads, lines, left=2)
        typer.echo("run one with: fedvls reproduce NAME (see fedvls reproduce --help)")


def _print(table: StudyTable) -> None:
    """The paper's layout, as many columns side by side as the terminal has room for."""
    from rich.console import Console

    from ..studies.render import caption, claim_lines, claims_head, difference_text, head, measured_text, published_text

    console, unit = Console(), table.study.unit
    console.print(caption(table), highlight=False, markup=False)
    names = max(len(name) for name in (*(row.label for row in table.rows), DIFFERENCE))
    parts: list[list[Any]] = [[]]
    room = used = console.width - names - 2
    widths = {}
    for column in table.columns:
        texts = [f(table.entry(row, column), unit) for row in table.rows for f in (measured_text, published_text)]
        widths[column] = max(map(len, [*head(table, column).split(", "), *texts])) + 2
        if used < widths[column] and parts[-1]:
            parts.append([])
            used = room
        parts[-1].append(column)
        used -= widths[column]
    compact = unit == "samples" and all(not e.difference for e in table.entries.values())
    for columns in parts:
        lines = []
        for row in table.rows:
            entries = [table.entry(row, column) for column in columns]
            lines.append([row.label, *(measured_text(e, unit) for e in entries)])
            if not compact and any(e.published for e in entries):
                lines.append([PAPER, *(published_text(e, unit) for e in entries)])
                lines.append([DIFFERENCE, *(difference_text(e, unit) for e in entries)])
        print_grid(["", *(head(table, column).replace(", ", "\n") for column in columns)], lines, left=1)
    if table.verdicts:
        console.print(claims_head(table))
        for line in claim_lines(table.verdicts):
            console.print(f"  {line}", highlight=False, markup=False)
    for note in table.study.notes:
        console.print(f"note: {note}", highlight=False, markup=False)
