"""`fedvls compare`: several methods and seeds, one table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import UsageError
from .options import build_config, split_list, with_run_options
from .show import print_rows


def add_to(app: typer.Typer) -> None:
    app.command(
        epilog="Example: fedvls compare --methods fedavg,fedvls:lam=0.5 --seeds 0,1,2 --dataset digits --beta 0.05"
    )(compare)


@with_run_options
def compare(
    options: dict[str, Any],
    methods: Annotated[str, typer.Option(help="Names separated by commas; values after colons: fedvls:lam=0.5")],
    config: Annotated[Path | None, typer.Argument(help="A config.yaml; options and --set change its values.")] = None,
    seeds: Annotated[str, typer.Option(help="Seeds separated by commas.")] = "0",
    out: Annotated[Path, typer.Option(help="Folder for the runs; complete ones in it are not run again.")] = Path(
        "runs/compare"
    ),
    format: Annotated[str, typer.Option(help="table, markdown, latex or json.")] = "table",
    plot: Annotated[Path | None, typer.Option(help="Write the convergence curves to this file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Run several methods from the same start on the same partition, for each seed."""
    from ..report.figures import check_ending
    from ..report.html import write_page
    from ..report.tables import FORMATS, summarise
    from ..runs.config import read_config
    from ..runs.store import RunDirectory
    from .run import train

    form = "json" if json else format
    if form not in FORMATS:
        raise UsageError(f"--format {form!r} is not one of {', '.join(FORMATS)}")
    if plot:
        check_ending(plot)
    base = read_config(config) if config else {}
    plan = []
    for seed in split_list(seeds, "--seeds"):
        if not seed.isdigit():
            raise UsageError(f"--seeds: {seed!r} is not a whole number")
        for text in split_list(methods, "--methods"):
            name, *values = text.split(":")
            extra = [f"method.{value}" for value in values]
            given = {**options, "settings": [*extra, *(options["settings"] or [])]}
            built = build_config(given, base, method=name, seed=int(seed))
            folder = "-".join([name, *(re.sub(r"[^\w.+]+", "", v) for v in values), f"s{seed}"])
            plan.append((built, out / folder, f"{text} seed {seed}"))
    _check(plan)
    runs = []
    for built, where, label in plan:
        train(built, where, label)
        runs.append(RunDirectory(where))
    rows = summarise(runs)
    print_rows(rows, form)
    typer.echo(f"report: {write_page(runs, out / 'report.html')}", err=True)
    if plot:
        from ..report.figures import convergence

        curves = {
            row.method: [[r["accuracy"] for r in RunDirectory(Path(p)).records()] for p in row.runs] for row in rows
        }
        convergence(curves, rows[0].setting, plot)
        typer.echo(f"figure: {plot}", err=True)


def _check(plan: list[tuple[Any, Path, str]]) -> None:
    """Every method name and value, before hours are spent on the first run."""
    from ..method import from_spec

    for built, _, _ in plan:
        from_spec(built.method)
