"""Data sets: by name, from an `.npz` file, or from arrays in memory (`FederatedData.from_arrays`).

Register one of your own by decorating a function that returns `FederatedData`:

    @DATASETS.register("ward")
    def ward(data_dir: str | None = None) -> FederatedData: ...
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from ..errors import DataError, UsageError, unknown
from ..registry import Registry
from .arrays import Scale
from .digits import load_digits
from .download import data_folder
from .federated import FederatedData
from .mnist import load_fashion_mnist, load_mnist
from .npz import load_npz

__all__ = ["DATASETS", "FederatedData", "load_dataset"]

DATASETS: Registry[FederatedData] = Registry("data set")
DATASETS.register("digits")(load_digits)
DATASETS.register("mnist")(load_mnist)
DATASETS.register("fashion-mnist")(load_fashion_mnist)


def load_dataset(
    name: str,
    data_dir: str | Path | None = None,
    mean: Scale | None = None,
    std: Scale | None = None,
    classes: int | None = None,
) -> FederatedData:
    """Load a data set by its registered name or from the path of an `.npz` file.

    data_dir: the folder that holds the data sets; by default `$FEDVLS_DATA_DIR`, or else a folder in the user's cache.
    mean, std: replace the normalisation, one number or one per channel.
    classes: replace the number of classes, for instance when the highest class has no sample.
    """
    if (mean is None) != (std is None):
        raise UsageError(f"mean = {mean} and std = {std}: give both or neither")
    name = str(name)
    folder = None if data_dir is None else data_folder(data_dir)
    spec: dict[str, Any] = {"name": name}
    if name in DATASETS:
        entry = DATASETS.entry(name)
        if folder is not None and "data_dir" in entry.defaults:
            spec["data_dir"] = str(folder)
        data = _replaced(entry.build(**{k: v for k, v in spec.items() if k != "name"}), mean, std, classes)
    else:
        path = _path(name)
        spec["name"] = str(path)
        data = load_npz(path, mean=mean, std=std, classes=classes)
        name = data.name
    if mean is not None:
        spec |= {"mean": list(data.mean or ()), "std": list(data.std or ())}
    if classes is not None:
        spec["classes"] = data.classes
    return dataclasses.replace(data, name=name, spec=spec)


def _path(name: str) -> Path:
    """The file that `name` means, or an error for a name that means nothing."""
    path = Path(name).expanduser().absolute()
    looks_like_a_path = name.endswith(".npz") or path.name != name
    if not looks_like_a_path and not path.is_file():
        hint = "or give the path of an .npz file with x_train, y_train, x_test, y_test"
        raise UsageError(f"{unknown('data set', name, (entry.name for entry in DATASETS))}; {hint}")
    return path


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
