"""`fedvls partition`: who has what."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ..partition import Split


# More clients than this are not listed without being asked for: the first few and the summary say more.
ROWS, FIRST = 50, 10


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: fedvls partition --dataset digits --beta 0.05 --seed 1 --plot partition.png")(
        partition
    )


def partition(
    dataset: Annotated[str, typer.Option(help="Data set by name, or a path: .npz, .csv, a folder.")] = "digits",
    partition: Annotated[str, typer.Option(help="Partition by name (see `fedvls ls partitions`).")] = "dirichlet",
    beta: Annotated[float | None, typer.Option(help="Dirichlet concentration; smaller is more skewed.")] = None,
    clients: Annotated[int | None, typer.Option(help="Number of clients (default: the data's own, or 10).")] = None,
    seed: Annotated[int, typer.Option(help="Partition seed.")] = 0,
    data_dir: Annotated[str | None, typer.Option(help="Folder with the data sets' files.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Other values, e.g. min_size=5 or data.size=32.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a heat map (png, svg, pdf).")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print sizes, counts, vacant classes and fingerprint.")] = False,
    all: Annotated[bool, typer.Option("--all", help=f"A row for every client, also for more than {ROWS}.")] = False,
) -> None:
    """Show how a partition shares the labels: client x class counts, vacant cells visible."""
    from ..data import load_dataset
    from ..partition import get_partition
    from ..report.figures import check_ending, partition_heat_map
    from ..runs.config import apply_settings
    from ..runs.files import to_json

    values: dict[str, Any] = apply_settings({} if beta is None else {"beta": beta}, settings or [])
    data_values = values.pop("data", {})
    chosen = get_partition(partition, **values)
    data = load_dataset(dataset, data_dir, **data_values)
    if clients is None:
        clients = 10 if data.clients is None else len(data.clients)
    split = chosen.split(data.y_train, data.classes, clients, seed, given=data.clients, domains=data.domain_train)
    if plot:
        check_ending(plot)
    if json:
        typer.echo(to_json({"data": data.name, "partition": {**chosen.spec, "seed": seed}, **split.summary()}))
    else:
        _print(split, data.class_names, split.clients if all or split.clients <= ROWS else FIRST)
    if plot:
        shown = ", ".join(f"{k} {v}" for k, v in chosen.values.items() if k == "beta" or k in values)
        title = (
            f"{data.name}: {chosen.name} {shown}, seed {seed}: {split.vacant_per_client:.1f} vacant classes per client"
        )
        typer.echo(f"figure: {partition_heat_map(split, data.class_names, title, plot)}", err=True)


def _print(split: Split, class_names: tuple[str, ...], rows: int) -> None:
    from rich.console import Console

    from ..terminal import number_table

    console = Console()
    table = number_table("samples per client and class (· = vacant)")
    for head in ("client", *class_names, "total", "vacant"):
        table.add_column(head, justify="right", no_wrap=True)
    for client in range(rows):
        counts = [str(n) if n else "·" for n in split.counts[client].tolist()]
        table.add_row(str(client), *counts, str(split.sizes[client]), str(int(split.vacant[client].sum())))
    console.print(table)
    if rows < split.clients:
        told = f"the first {rows} of {split.clients:,} clients; --all and --json show every one"
        console.print(told, highlight=False)
    sizes = split.sizes
    console.print(
        f"{split.vacant_per_client:.1f} of {split.classes} classes vacant per client; "
        f"sizes {sizes.min()} to {sizes.max()}; accepted at draw {split.tries}; fingerprint {split.fingerprint}",
        highlight=False,
        soft_wrap=True,
    )
