"""fedvls: label-skewed federated learning.

Public names are loaded on first use, so that `import fedvls` and the command line's help stay fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .aggregation import ServerInputs, ServerOutputs, ServerRule, extrapolated, mean
    from .callbacks import Callback
    from .data import DATASETS, FederatedData, load_dataset
    from .errors import DataError, FedvlsError, PartitionError, RunError, UsageError
    from .federation import Federation
    from .losses import LossInputs, Term, term
    from .method import Method, get_method, register
    from .models import MODELS
    from .partition import (
        Partition,
        Split,
        dirichlet,
        dirichlet_client,
        dirichlet_plain,
        get_partition,
        given,
        iid,
        per_domain,
        quantity,
        shards,
        shards_imbalanced,
    )
    from .runs.config import RunConfig
    from .runs.result import Result
    from .steps import Step, StepContext, sam, sgd

__version__ = "0.1.0"

_PUBLIC = {
    "aggregation": ("ServerInputs", "ServerOutputs", "ServerRule", "extrapolated", "mean"),
    "callbacks": ("Callback",),
    "data": ("DATASETS", "FederatedData", "load_dataset"),
    "errors": ("DataError", "FedvlsError", "PartitionError", "RunError", "UsageError"),
    "federation": ("Federation",),
    "losses": ("LossInputs", "Term", "term"),
    "method": ("Method", "get_method", "register"),
    "models": ("MODELS",),
    "partition": (
        "Partition",
        "Split",
        "dirichlet",
        "dirichlet_client",
        "dirichlet_plain",
        "get_partition",
        "given",
        "iid",
        "per_domain",
        "quantity",
        "shards",
        "shards_imbalanced",
    ),
    "runs.config": ("RunConfig",),
    "runs.result": ("Result",),
    "steps": ("Step", "StepContext", "sam", "sgd"),
}
_HOME = {name: module for module, names in _PUBLIC.items() for name in names}

__all__ = [
    "DATASETS",
    "MODELS",
    "Callback",
    "DataError",
    "FederatedData",
    "Federation",
    "FedvlsError",
    "LossInputs",
    "Method",
    "Partition",
    "PartitionError",
    "Result",
    "RunConfig",
    "RunError",
    "ServerInputs",
    "ServerOutputs",
    "ServerRule",
    "Split",
    "Step",
    "StepContext",
    "Term",
    "UsageError",
    "dirichlet",
    "dirichlet_client",
    "dirichlet_plain",
    "extrapolated",
    "get_method",
    "get_partition",
    "given",
    "iid",
    "load_dataset",
    "losses",
    "mean",
    "per_domain",
    "quantity",
    "register",
    "sam",
    "sgd",
    "shards",
    "shards_imbalanced",
    "term",
]


def __getattr__(name: str) -> Any:
    if name == "losses":
        return importlib.import_module(".losses", __name__)
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
