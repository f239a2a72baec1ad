"""Data sets: by name, from a file or folder of your own, or from arrays in memory (`FederatedData.from_arrays`).

Register one of your own by decorating a function that returns `FederatedData`:

    @DATASETS.register("ward")
    def ward(data_dir: str | None = None) -> FederatedData: ...
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..errors import DataError, UsageError, unknown
from ..registry import Registry, convert
from .agnews import load_ag_news
from .arrays import Scale, one_line
from .cifar import load_cifar10, load_cifar100
from .digits import load_digits
from .domains import load_digits_domains
from .download import data_folder
from .federated import FederatedData
from .folder import load_folder
from .fraction import take_fraction
from .mnist import load_fashion_mnist, load_mnist
from .npz import load_npz
from .released import evaluate_on as evaluated_on
from .released import merge_and_split
from .svhn import load_svhn, load_syn_digits
from .text_csv import ENDINGS as CSV_ENDINGS
from .text_csv import has_texts, load_csv
from .tiny import load_tiny_imagenet
from .usps import load_usps

__all__ = ["DATASETS", "FederatedData", "load_dataset"]

DATASETS: Registry[FederatedData] = Registry("data set")
DATASETS.register("digits")(load_digits)
DATASETS.register("mnist")(load_mnist)
DATASETS.register("fashion-mnist")(load_fashion_mnist)
DATASETS.register("cifar10")(load_cifar10)
DATASETS.register("cifar100")(load_cifar100)
DATASETS.register("tiny-imagenet")(load_tiny_imagenet)
DATASETS.register("ag-news")(load_ag_news)
DATASETS.register("usps")(load_usps)
DATASETS.register("svhn")(load_svhn)
DATASETS.register("syn-digits")(load_syn_digits)
DATASETS.register("digits-domains")(load_digits_domains)
DATASETS.register("folder")(load_folder)
DATASETS.register("csv")(load_csv)

_COMMON = ("name", "data_dir", "mean", "std", "classes", "fraction", "merged_split", "evaluate_on")


def load_dataset(
    name: str,
    data_dir: str | Path | None = None,
    mean: Scale | None = None,
    std: Scale | None = None,
    classes: int | None = None,
    fraction: float | None = None,
    merged_split: float | None = None,
    evaluate_on: str | None = None,
    **values: Any,
) -> FederatedData:
    """Load a data set by its registered name, or from the path of an `.npz`, a `.csv` or a folder of images.

    data_dir: the folder that holds the data sets; by default `$FEDVLS_DATA_DIR`, or else a folder in the user's cache.
    mean, std: replace the normalisation, one number or one per channel.
    classes: replace the number of classes, for instance when the highest class has no sample.
    fraction: train with this share of every class only, for a quick look; the test set stays whole.
    merged_split, evaluate_on: divide and score as the authors' program does (`fedvls.data.released`); for study only.
    values: what the data set itself can be asked for, such as `max_vocabulary` of ag-news (`fedvls ls datasets`).
    """
    if (mean is None) != (std is None):
        raise UsageError(f"mean = {mean} and std = {std}: give both or neither")
    try:
        data = _load(str(name), data_dir, mean, std, classes, values)
        data = data if merged_split is None else merge_and_split(data, merged_split)
        data = data if fraction is None else take_fraction(data, fraction)
        return data if evaluate_on is None else evaluated_on(data, evaluate_on)
    except OSError as error:  # a folder that may not be entered, a name that is too long
        raise DataError(f"{error.filename or name} cannot be read: {error.strerror or one_line(error)}") from None


def _load(
    name: str,
    data_dir: str | Path | None,
    mean: Scale | None,
    std: Scale | None,
    classes: int | None,
    values: Mapping[str, Any],
) -> FederatedData:
    folder = None if data_dir is None else data_folder(data_dir)
    path = None if name in DATASETS else _path(name)
    kind = name if path is None else _kind(path)
    build = load_npz if kind == "npz" else DATASETS.entry(kind).build
    own = _own_values(build, values, path)
    spec: dict[str, Any] = {"name": name if path is None else str(path), **own}
    if folder is not None and "data_dir" in inspect.signature(build).parameters:
        spec["data_dir"] = own["data_dir"] = str(folder)
    if path is not None:
        own["path"] = str(path)
    if kind == "npz":
        data = load_npz(**own, mean=mean, std=std, classes=classes)
    else:
        data = _replaced(build(**own), mean, std, classes)
    if mean is not None:
        spec |= {"mean": list(data.mean or ()), "std": list(data.std or ())}
    if classes is not None:
        spec["classes"] = data.classes
    return dataclasses.replace(data, name=data.name if "path" in own else name, spec=spec)


def _path(name: str) -> Path:
    """The file or folder that `name` means, or an error for a name that means nothing."""
    path = Path(name).expanduser().absolute()
    looks_like_a_path = name.endswith((".npz", *CSV_ENDINGS)) or path.name != name
    if not looks_like_a_path and not path.exists():
        hint = "or give the path of an .npz file with x_train, y_train, x_test, y_test, of a .csv or of a folder"
        raise UsageError(f"{unknown('data set', name, (entry.name for entry in DATASETS))}; {hint}")
    return path


def _kind(path: Path) -> str:
    """What reads this file or folder."""
    if path.is_dir():
        return "csv" if has_texts(path) and not (path / "train").is_dir() else "folder"
    return "csv" if path.name.endswith(CSV_ENDINGS) else "npz"


def _own_values(build: Callable[..., FederatedData], given: Mapping[str, Any], path: Path | None) -> dict[str, Any]:
    """The values that belong to this data set, converted and complete, so that a config can hold them."""
    hidden = {*_COMMON, "path"} if path is not None else set(_COMMON)
    parameters = {k: p for k, p in inspect.signature(build).parameters.items() if k not in hidden}
    for key in given:
        if key not in parameters:
            raise unknown("key in data:", key, (*_COMMON, *parameters))
    hints = typing.get_type_hints(build)
    values = {
        key: convert(given.get(key, parameter.default), hints.get(key, Any), f"data.{key}")
        for key, parameter in parameters.items()
        if key in given or parameter.default not in (None, inspect.Parameter.empty)
    }
    if isinstance(values.get("path"), str):
        values["path"] = str(Path(values["path"]).expanduser().absolute())
    return values


def _replaced(data: FederatedData, mean: Any, std: Any, classes: int | None) -> FederatedData:
    """A registered data set with the user's own scale or number of classes."""
    if not isinstance(data, FederatedData):
        raise DataError(f"a registered data set returned {type(data).__name__}, not FederatedData")
    changes: dict[str, Any] = {}
    if mean is not None:
        changes |= {"mean": mean, "std": std}
    if classes is not None and classes != data.classes:
        changes |= {"classes": classes, "class_names": ()}
    return dataclasses.replace(data, **changes) if changes else data
