"""Models by name, and any `torch.nn.Module` as a pure function."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from torch import nn

from ..errors import UsageError
from . import mlp as _mlp  # noqa: F401  (importing registers it)
from .init import build_with_seed
from .network import ModelState, Network
from .registry import MODELS

__all__ = ["MODELS", "ModelState", "Network", "build_network", "complete_spec"]


def build_network(
    model: str | Mapping[str, Any] | nn.Module,
    sample_shape: tuple[int, ...],
    classes: int,
    seed: int,
    classifier: str | None = None,
) -> Network:
    """A network from a name, a config section or a module. A module keeps the weights it has: they are the start."""
    if isinstance(model, nn.Module):
        return Network(model, classes, classifier)
    values = complete_spec(model)
    entry = MODELS.entry(values.pop("name"))
    module = build_with_seed(lambda: entry.build(sample_shape=sample_shape, classes=classes, **values), seed)
    return Network(module, classes, classifier)


def complete_spec(model: str | Mapping[str, Any]) -> dict[str, Any]:
    """Name and all values of a registered model, defaults filled in; the data decides the sizes that are left."""
    given = {"name": model} if isinstance(model, str) else dict(model)
    name = given.pop("name", None)
    if not isinstance(name, str):
        raise UsageError(f"model = {model!r} has no name; give one, e.g. {{name: mlp}}")
    defaults = {k: v for k, v in MODELS.entry(name).defaults.items() if v is not inspect.Parameter.empty}
    return {"name": name, **defaults, **given}
