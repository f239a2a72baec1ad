"""A site's own data: a file, a folder, a Python function, or its share of a public data set for trying things out."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..data import FederatedData, load_dataset
from ..data.measurements import load_measurements
from ..data.text_csv import ENDINGS as CSV_ENDINGS
from ..errors import DataError, UsageError
from ..partition import get_partition
from ..runs.config import AT_SITES
from .settings import Plan

Source = Callable[..., FederatedData] | FederatedData | str | None


def site_number(node_config: Mapping[str, Any], clients: int) -> int:
    """`site` of the node's configuration, or the number that Flower's simulation gives it."""
    number = node_config.get("site", node_config.get("partition-id"))
    if number is None:
        raise UsageError("this node has no number: start it with --node-config 'site=0', 1, 2, ...")
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < clients:
        raise UsageError(f"site = {number!r} must be a whole number from 0 to {clients - 1} (clients = {clients})")
    return number


def load_site(source: Source, node_config: Mapping[str, Any], plan: Plan) -> FederatedData:
    """The data of this node, checked against what the federation expects."""
    site = site_number(node_config, plan.config.clients)
    given = source if source is not None else node_config.get("data-path") or node_config.get("data-function")
    if isinstance(given, FederatedData):
        data = given
    elif callable(given):
        data = given(dict(node_config))
    elif isinstance(given, str) and ":" in given and not Path(given).exists():
        data = _function(given)(dict(node_config))
    elif given is not None:
        data = load_path(str(given), plan)
    elif plan.config.data["name"] != AT_SITES:
        data = share(plan, site)
    else:
        raise UsageError(
            f"site {site} has no data: start its node with --node-config 'site={site} data-path=\"/path/to/data\"'"
        )
    return _checked(data, plan, f"site {site}")


def load_path(path: str, plan: Plan) -> FederatedData:
    """An .npz, a folder of images, or a table (.csv), in the federation's classes and scale."""
    sites = plan.sites
    values: dict[str, Any] = {"mean": sites.mean or None, "std": sites.std or None}
    if path.endswith(CSV_ENDINGS):
        data = load_measurements(path, sites.number_of_classes, sites.names)
        return replace(data, **{k: v for k, v in values.items() if v is not None})
    if Path(path).expanduser().is_dir():
        if not sites.names:
            raise UsageError(
                f"{path}: set sites.class_names to the classes of all sites, in order; a site that lacks one cannot "
                "number them by itself"
            )
        shape = sites.shape
        size = f"{shape[1]}x{shape[2]}" if len(shape) == 3 else None
        return load_dataset(path, class_names=",".join(sites.names), size=size, **values)
    if sites.vocabulary:
        values["vocabulary"] = sites.vocabulary
    return load_dataset(path, classes=sites.number_of_classes or None, **values)


def share(plan: Plan, site: int) -> FederatedData:
    """The samples that the simulator would give this client, in its order."""
    config = plan.config
    data = load_dataset(**config.data)
    partition = {k: v for k, v in config.partition.items() if k != "seed"}
    split = get_partition(partition.pop("name"), **partition).split(
        data.y_train,
        data.classes,
        config.clients,
        config.seed_of("partition"),
        given=data.clients,
        domains=data.domain_train,
    )
    own = split.indices[site]
    domains = None if data.domain_train is None else data.domain_train[own]
    return replace(data, x_train=data.x_train[own], y_train=data.y_train[own], clients=None, domain_train=domains)


def _function(name: str) -> Callable[..., FederatedData]:
    """`module:function`, imported."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"data-function = {name!r} cannot be imported: {error}") from None
    if not callable(found):
        raise UsageError(f"data-function = {name!r} is not a function")
    return found  # type: ignore[no-any-return]


def _checked(data: object, plan: Plan, where: str) -> FederatedData:
    if not isinstance(data, FederatedData):
        raise DataError(f"{where}: the data function returned {type(data).__name__}, not FederatedData")
    wanted = plan.sites
    if wanted.number_of_classes and data.classes != wanted.number_of_classes:
        raise DataError(f"{where} has {data.classes} classes, the federation {wanted.number_of_classes}")
    if wanted.shape and data.sample_shape != wanted.shape:
        raise DataError(f"{where} has samples of shape {data.sample_shape}, the federation {wanted.shape}")
    return data
