"""`fedvls flower`: prepare a real federation on Flower."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import UsageError

flower = typer.Typer(
    no_args_is_help=True,
    help="Real federations on Flower: an app folder, certificates, site keys.",
    epilog="Example: fedvls flower new my-federation --sites 3",
)


def add_to(app: typer.Typer) -> None:
    app.add_typer(flower, name="flower")


def _needs_flower(module: str) -> None:
    from importlib.util import find_spec

    if find_spec(module) is None:
        raise UsageError("this command needs Flower: pip install 'fedvls[flower]'")


@flower.command(epilog="Example: fedvls flower new my-federation --method fedvls --sites 3")
def new(
    folder: Annotated[Path, typer.Argument(help="The folder to make; its name becomes the app's.")],
    method: Annotated[str, typer.Option(help="Method by name (see `fedvls ls methods`).")] = "fedvls",
    model: Annotated[str, typer.Option(help="Model by name (see `fedvls ls models`).")] = "mlp",
    sites: Annotated[int, typer.Option(help="Number of sites.")] = 3,
    rounds: Annotated[int, typer.Option(help="Communication rounds.")] = 10,
    dataset: Annotated[
        str, typer.Option(help="sites: every node has its own data; a data set's name: each takes its share of it.")
    ] = "digits",
    sample_shape: Annotated[str, typer.Option(help="Of one sample, for --dataset sites, e.g. 1,28,28.")] = "",
    classes: Annotated[int, typer.Option(help="Number of classes, for --dataset sites.")] = 0,
) -> None:
    """Write a Flower app folder that is ready to run."""
    _needs_flower("flwr")
    from ..flower.new_app import write_app

    written = write_app(
        folder,
        method=method,
        model=model,
        clients=sites,
        rounds=rounds,
        dataset=dataset,
        sample_shape=sample_shape,
        classes=classes,
    )
    for path in written:
        typer.echo(path)
    typer.echo(f"next: read {folder / 'README.md'}")


@flower.command(epilog="Example: fedvls flower certs certs --name superlink.example.org --address 10.0.0.5 --sites 3")
def certs(
    folder: Annotated[Path, typer.Argument(help="Where the files go.")],
    name: Annotated[list[str] | None, typer.Option(help="Host name of the server for its sites (repeatable).")] = None,
    address: Annotated[list[str] | None, typer.Option(help="IP address of the server (repeatable).")] = None,
    sites: Annotated[int, typer.Option(help="Make a key for each of so many sites.")] = 0,
    days: Annotated[int, typer.Option(help="How long the server's certificate is valid.")] = 365,
) -> None:
    """Make a CA, the server's certificate for the names and addresses given, and a key for every site."""
    _needs_flower("cryptography")
    from ..flower.certificates import make_certificates

    for path in make_certificates(folder, name or [], address or [], sites, days):
        typer.echo(path)
    typer.echo(
        "keep ca.key offline; server.key stays on the server; each site gets ca.crt and its own site-N, nothing else"
    )


@flower.command(epilog="Example: fedvls flower key certs/site-3")
def key(path: Annotated[Path, typer.Argument(help="The private key to make; .pub is made beside it.")]) -> None:
    """Make a key for one more site."""
    _needs_flower("cryptography")
    from ..flower.certificates import make_site_key

    for written in make_site_key(path):
        typer.echo(written)
