"""The run header: every choice that hides in a table of accuracies."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from ..method import Method
from ..models.network import ModelState, Network
from ..partition import Split
from .config import RunConfig


def partition_facts(config: RunConfig, split: Split) -> dict[str, Any]:
    """What a header says of the partition of data that are here."""
    return {**config.partition, "seed": config.seed_of("partition"), **split.summary()}


def header_of(
    config: RunConfig,
    data: Mapping[str, Any],
    partition: Mapping[str, Any],
    network: Network,
    start: ModelState,
    method: Method,
    engine: str,
    engine_reason: str,
    device: torch.device,
) -> dict[str, Any]:
    """Data, partition, model, method, engine, policies, optimizer, seeds, versions, device."""
    return {
        "data": dict(data),
        "partition": dict(partition),
        "model": {
            **config.model,
            "seed": config.seed_of("model"),
            "parameters": sum(p.numel() for p in start.params.values()),
            "classifier": network.classifier,
            "start": config.start or "initialised from model.seed",
        },
        "method": method.describe,
        "engine": {"name": engine, "why": engine_reason},
        "dtype": config.dtype,
        "batch_norm": {
            "present": network.has_batch_norm,
            "buffers": config.buffers,
            "integer_buffers": "maximum",
            "teacher_mode": config.teacher_mode,
        },
        "aggregation_weights": config.aggregation_weights,
        "optimizer": {
            "name": "sgd",
            "lr": config.lr,
            "momentum": config.momentum,
            "weight_decay": config.weight_decay,
            "state": "kept between rounds" if config.persistent_momentum else "fresh per round and client",
        },
        "local_training": {"epochs": config.epochs, "batch_size": config.batch_size, "last_batch": "kept"},
        "participation": config.participation,
        "sampling_seed": config.seed_of("sampling"),
        "augmentation": config.augmentation,
        "seed": config.seed,
        "versions": versions(),
        "device": describe_device(device),
        "threads": config.threads,
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def versions() -> dict[str, str]:
    """What the bits may depend on."""
    found = {"python": platform.python_version(), "torch": torch.__version__}
    for package in ("fedvls", "numpy", "safetensors", "scikit-learn"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed as a package"
    return found


def describe_device(device: torch.device) -> str:
    if device.type == "cuda":
        return f"cuda: {torch.cuda.get_device_name(device)}"
    return f"cpu: {platform.machine()}"


def changed_versions(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What a resumed run computes with that its start did not."""
    old, new = (
        {**header["versions"], **{k: header[k] for k in ("device", "threads")}, "engine": header["engine"]["name"]}
        for header in (before, now)
    )
    return [f"{k} {old.get(k)} -> {v}" for k, v in new.items() if old.get(k) != v]
