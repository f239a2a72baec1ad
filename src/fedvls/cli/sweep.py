"""`fedvls sweep`: every combination of values, for each seed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import UsageError
from .options import build_config, with_run_options
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


def add_to(app: typer.Typer) -> None:
    app.command(
        epilog="Example: fedvls sweep --method fedvls --over method.lam=0.05,0.1,0.5 --over partition.beta=0.1,0.05"
    )(sweep)


@with_run_options
def sweep(
    options: dict[str, Any],
    over: Annotated[
        list[str], typer.Option(help="A key of the config and its values: method.lam=0.1,0.5 (repeatable).")
    ],
    config: Annotated[Path | None, typer.Argument(help="A config.yaml; options and --set change its values.")] = None,
    method: Annotated[str | None, typer.Option(help="Method by name (see `fedvls ls methods`).")] = None,
    seeds: Annotated[str, typer.Option(help="Seeds separated by commas.")] = "0",
    out: Annotated[Path, typer.Option(help="Folder for the runs; complete ones in it are not run again.")] = Path(
        "runs/sweep"
    ),
    workers: Workers = None,
    on: On = Place.here,
    ray_address: RayAddress = None,
    format: Format = "table",
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Run every combination of values, for each seed, and tabulate them; finished runs are taken from disk."""
    from ..runs.config import RunConfig, assign, read_config
    from ..studies.execute import execute
    from ..studies.jobs import Job
    from ..studies.sweep import Combination, grid, parse_over, render, table_rows

    form = "json" if json else format
    check_format(form)
    base = read_config(config) if config else {}
    numbers = whole_numbers(seeds, "--seeds")
    combinations = []
    for values in parse_over(over):
        jobs = {}
        for seed in numbers:
            changed = build_config(options, base, method=method, seed=seed).to_mapping()
            for key, value in values.items():
                assign(changed, key, value)
            jobs[seed] = Job(RunConfig.from_mapping(changed, "sweep"))
        combinations.append(Combination(values, jobs))
    every = [job for combination in combinations for job in combination.jobs.values()]
    if len({job.key for job in every}) < len(every):
        raise UsageError("two combinations are the same run; leave out values that mean the same")
    with backend(every, out, workers, on, ray_address) as (chosen, tell):
        failures = execute(every, out, chosen, tell)
    rows = table_rows(combinations, out, failures)
    if form == "table":
        print_grid(*grid(rows), left=0, title="test accuracy, %")
    else:
        typer.echo(render(rows, form))
    report_failures(list(failures.values()))
