"""The folder that every program of a run reads: data, partition and start weights; and the settings of one row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..data import FederatedData
from ..models import build_network
from ..models.init import build_with_seed
from ..models.network import Network
from ..partition import Split, get_partition
from .rivals.shared import build_model
from .workloads import Workload


def workload_network(workload: Workload, seed: int) -> Network:
    """The model as our engines are given it, with the weights that everyone begins with."""
    spec = dict(workload.model)
    if spec["name"] == "two-convolutions":
        return Network(build_with_seed(lambda: build_model(spec), seed), workload.classes)
    if spec["name"] == "mlp":
        *_, width, _ = widths = spec.pop("widths")
        spec |= {"width": width, "depth": len(widths) - 2}
    return build_network(spec, workload.image, workload.classes, seed)


def workload_split(workload: Workload, data: FederatedData, seed: int) -> Split:
    """Who has what."""
    values = dict(workload.partition)
    return get_partition(values.pop("name"), **values).split(data.y_train, data.classes, workload.clients, seed)


def write_inputs(folder: Path, workload: Workload, data: FederatedData, split: Split, seed: int) -> None:
    """What rows have in common."""
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(
        folder / "data.npz",
        x_train=data.x_train,
        y_train=data.y_train,
        x_test=data.x_test,
        y_test=data.y_test,
        positions=np.concatenate(split.indices),
        sizes=np.asarray([len(own) for own in split.indices]),
    )
    start = workload_network(workload, seed).start(torch.device("cpu"), torch.float32)
    arrays: dict[str, Any] = {name: tensor.numpy() for name, tensor in start.tensors().items()}
    np.savez(folder / "start.npz", **arrays)


def write_settings(folder: Path, workload: Workload, **row: Any) -> Path:
    """The file one program is started with: the workload's values and the row's own."""
    keys = ("name", "model", "classes", "clients", "cohort", "epochs", "batch_size", "lr", "momentum", "weight_decay")
    settings = {key: getattr(workload, key) for key in (*keys, "mean", "std", "augmentation")}
    path = folder / "settings.json"
    path.write_text(json.dumps({**settings, "inputs": str(folder), **row}, indent=2), encoding="utf-8")
    return path
