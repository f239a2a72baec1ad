"""The options that `run` and `compare` share, and how they become a configuration.

A command decorated with `@with_run_options` receives them as one mapping, so that an option exists once.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from ..errors import UsageError

if TYPE_CHECKING:
    from ..runs.config import RunConfig

# Options that set a value inside a section of the configuration; the others are top-level keys of the same name.
INSIDE = {
    "method": "method.name",
    "dataset": "data.name",
    "data_dir": "data.data_dir",
    "domains": "data.domains",
    "partition": "partition.name",
    "beta": "partition.beta",
    "model": "model.name",
    "augmentation": "augmentation.name",
}
NOT_CONFIG = ("settings", "imports")


def _template(
    dataset: Annotated[
        str | None, Option(help="Data set by name, or a path: .npz, .csv, a folder (see `fedvls ls datasets`).")
    ] = None,
    data_dir: Annotated[str | None, Option(help="Folder with the data sets' files.")] = None,
    domains: Annotated[str | None, Option(help="Domains of digits-domains, e.g. mnist,usps.")] = None,
    partition: Annotated[str | None, Option(help="How labels are skewed (see `fedvls ls partitions`).")] = None,
    beta: Annotated[float | None, Option(help="Dirichlet concentration; smaller is more skewed.")] = None,
    clients: Annotated[int | None, Option(help="Number of clients.")] = None,
    participation: Annotated[float | None, Option(help="Share of clients in each round.")] = None,
    rounds: Annotated[int | None, Option(help="Communication rounds.")] = None,
    epochs: Annotated[int | None, Option(help="Local epochs per round.")] = None,
    batch_size: Annotated[int | None, Option(help="Minibatch size.")] = None,
    lr: Annotated[float | None, Option(help="Local learning rate.")] = None,
    momentum: Annotated[float | None, Option(help="SGD momentum.")] = None,
    weight_decay: Annotated[float | None, Option(help="SGD weight decay.")] = None,
    model: Annotated[str | None, Option(help="Model by name (see `fedvls ls models`).")] = None,
    augmentation: Annotated[
        str | None,
        Option(help="Of training images: auto (the paper's), none, ... (see `fedvls ls augmentations`)."),
    ] = None,
    local_every: Annotated[int | None, Option(help="Evaluate the clients' own models every this many rounds.")] = None,
    confusion: Annotated[list[int] | None, Option(help="Record this client's confusion matrix (repeatable).")] = None,
    start: Annotated[str | None, Option(help="Begin with these weights (safetensors).")] = None,
    engine: Annotated[str | None, Option(help="auto, sequential, parallel, stacked or graphed.")] = None,
    device: Annotated[str | None, Option(help="auto, cpu or cuda.")] = None,
    dtype: Annotated[str | None, Option(help="float32, float64, tf32 or bf16.")] = None,
    threads: Annotated[int | None, Option(help="CPU threads.")] = None,
    log: Annotated[list[str] | None, Option(help="Also log to tensorboard, mlflow or wandb (repeatable).")] = None,
    settings: Annotated[
        list[str] | None, Option("--set", help="Any key of the config, e.g. method.lam=0.5 (repeatable).")
    ] = None,
    imports: Annotated[
        list[Path] | None, Option("--import", help="Python file that registers your own methods (repeatable).")
    ] = None,
) -> None:
    """Carries the signature; never called."""


def with_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give `command` the shared options, collected in its `options` argument."""
    shared = inspect.signature(_template).parameters
    own = [p for p in inspect.signature(command).parameters.values() if p.name != "options"]

    @functools.wraps(command)
    def wrapped(**given: Any) -> None:
        options = {name: given.pop(name) for name in shared}
        command(options=options, **given)

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [p.replace(kind=keyword) for p in (*own, *shared.values())]
    hints = typing.get_type_hints(command, include_extras=True) | typing.get_type_hints(_template, include_extras=True)
    parameters = [p.replace(annotation=hints[p.name]) for p in parameters]
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapped


def build_config(options: dict[str, Any], base: dict[str, Any], **more: Any) -> RunConfig:
    """Options over a config file's values over the defaults, then --set."""
    from ..runs.config import RunConfig, apply_settings
    from ..runs.imports import import_files

    values = dict(base)
    for key, value in {**options, **more}.items():
        if value is None or key in NOT_CONFIG:
            continue
        section, _, inner = INSIDE.get(key, key).partition(".")
        if not inner:
            values[section] = list(value) if isinstance(value, list | tuple) else value
            continue
        current = values.get(section, {})
        current = {"name": current} if isinstance(current, str) else dict(current)
        if inner == "name" and current.get("name") not in (None, value):
            current = {}  # values of another method or partition mean nothing to this one
        values[section] = {**current, inner: value}
    values = apply_settings(values, options["settings"] or [])
    named = [str(p.resolve()) for p in options["imports"] or []]
    if named:
        values["imports"] = [*values.get("imports", []), *named]
    config = RunConfig.from_mapping(values)
    import_files(config.imports)
    return config


def split_list(text: str, what: str) -> list[str]:
    """`a,b,c` as a list without blanks."""
    items = [item.strip() for item in text.split(",") if item.strip()]
    if not items:
        raise UsageError(f"{what} is empty; give names separated by commas")
    return items
