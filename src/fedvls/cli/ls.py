"""`fedvls ls`: what there is to choose from."""

from __future__ import annotations

import inspect
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer


class Kind(StrEnum):
    """What can be listed."""

    methods = "methods"
    datasets = "datasets"
    models = "models"
    partitions = "partitions"
    augmentations = "augmentations"


def add_to(app: typer.Typer) -> None:
    app.command("ls", epilog="Example: fedvls ls methods")(ls)


def ls(
    kind: Annotated[Kind, typer.Argument(help="methods, datasets, models, partitions or augmentations.")],
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """List what there is to choose from, with values and defaults."""
    from ..runs.files import to_json

    rows = _entries(kind)
    if json:
        typer.echo(to_json(rows, indent=2))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    heads = ["name", "values and defaults", "what it is"]
    if kind is Kind.methods:
        heads.append("exchanged beyond weights")
    for head in heads:
        table.add_column(head, overflow="fold")
    for row in rows:
        values = "\n".join(f"{k} = {v}" for k, v in row["values"].items())
        about = "\n".join(filter(None, [row.get("paper"), row["summary"]]))
        more = [Text(_travels(row["exchanged"]))] if "exchanged" in row else []
        table.add_row(row["name"], Text(values), Text(about), *more)
    Console().print(table)


def _entries(kind: Kind) -> list[dict[str, Any]]:
    hidden = {"sample_shape", "classes", "vocabulary", "data_dir"}
    rows = []
    for entry in _registry(kind):
        values = {k: None if v is inspect.Parameter.empty else v for k, v in entry.defaults.items() if k not in hidden}
        row: dict[str, Any] = {"name": entry.name, "values": values, "summary": entry.summary, **entry.about}
        if kind is Kind.methods:
            row["paper"] = (sys.modules[entry.build.__module__].__doc__ or row["title"]).split("\n", 1)[0].rstrip(".")
            row["exchanged"] = entry.build().exchanged
        rows.append(row)
    return sorted(rows, key=lambda row: str(row["name"]))


def _travels(exchanged: dict[str, str]) -> str:
    return "\n".join(f"{way}: {what}" for way, what in exchanged.items() if what != "nothing") or "nothing"


def _registry(kind: Kind) -> Any:
    if kind is Kind.methods:
        from .. import methods  # noqa: F401  (registers them)
        from ..method import METHODS

        return METHODS
    if kind is Kind.datasets:
        from ..data import DATASETS

        return DATASETS
    if kind is Kind.models:
        from ..models import MODELS

        return MODELS
    if kind is Kind.augmentations:
        from ..augment import AUGMENTATIONS

        return AUGMENTATIONS
    from ..partition import PARTITIONS

    return PARTITIONS
