"""`fedvls run`: one run, from options or a config file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import build_config, with_run_options

if TYPE_CHECKING:
    from ..runs.config import RunConfig
    from ..runs.result import Result


def add_to(app: typer.Typer) -> None:
    app.command(
        epilog="Example: fedvls run --method fedvls --dataset digits --beta 0.05 --rounds 20 --set method.lam=0.5"
    )(run)


@with_run_options
def run(
    options: dict[str, Any],
    config: Annotated[Path | None, typer.Argument(help="A config.yaml; options and --set change its values.")] = None,
    method: Annotated[str | None, typer.Option(help="Method by name (see `fedvls ls methods`).")] = None,
    seed: Annotated[int | None, typer.Option(help="The one seed everything derives from.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run directory (default: a new one under runs/).")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Train one federation and keep everything about it in a folder."""
    from ..runs.config import read_config

    base = read_config(config) if config else {}
    built = build_config(options, base, method=method, seed=seed)
    where = out or default_folder(built)
    report(train(built, where), json)


def default_folder(config: RunConfig) -> Path:
    """A new folder under runs/, named after what is run."""
    from ..runs.store import fresh_folder

    data = Path(str(config.data.get("name"))).stem
    name = f"{config.method.get('name')}-{data}-{config.partition.get('name')}-s{config.seed}"
    return fresh_folder(Path("runs"), name)


def train(config: RunConfig, where: Path, name: str | None = None) -> Result:
    """Run with a progress bar; Ctrl-C leaves a resumable run and says how to go on."""
    from ..federation import run_config
    from ..report.html import write_page
    from ..runs.store import RunDirectory
    from .progress import Bar, progress_display

    with progress_display() as progress:
        bar = Bar(progress, name or str(config.method.get("name")))
        try:
            result = run_config(config, where, [bar])
        except KeyboardInterrupt:
            progress.stop()
            if bar.rounds == 0:
                typer.echo("stopped before the first round", err=True)
            else:
                typer.echo(
                    f"stopped after round {bar.done} of {bar.rounds}; resume with: fedvls resume {where}", err=True
                )
            raise typer.Exit(130) from None
    write_page([RunDirectory(where)], where / "report.html")
    return result


def report(result: Result, json: bool) -> None:
    """The result of one run, for a person or a script."""
    from ..runs.files import to_json

    if json:
        typer.echo(to_json({"run_dir": str(result.run_dir), **result.summary(), "curve": result.curve}, indent=2))
        return
    header, local = result.header, result.local
    partition = header["partition"]
    typer.echo(
        f"{header['method']['name']} on {header['data']['name']}: {partition['clients']} clients, "
        f"{partition['vacant_per_client']:.1f} of {partition['classes']} classes vacant per client, "
        f"{header['engine']['name']} engine on {header['device']}"
    )
    typer.echo(
        f"accuracy: best {100 * result.best:.2f} % (round {result.best_round}), last {100 * result.last:.2f} %, "
        f"mean of last five {100 * result.mean_last_five:.2f} %"
    )
    for group in ("vacant", "minority", "majority"):
        before, after = local["before"][group], local["after"][group]
        if before is not None:
            typer.echo(f"  last local update, {group} classes: {100 * before:.1f} % -> {100 * after:.1f} %")
    typer.echo(f"run directory: {result.run_dir} (its page: report.html)")
