"""Models by name, and any `torch.nn.Module` as a pure function."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from torch import nn

from ..errors import UsageError
from ..registry import convert
from . import cnn, mlp, mobilenetv2, resnet, text  # noqa: F401  (importing registers them)
from .init import build_with_seed
from .network import ModelState, Network
from .registry import MODELS

__all__ = ["MODELS", "ModelState", "Network", "build_network", "complete_spec"]

# What the data decides. A configuration leaves it out, except for a vocabulary with room to spare.
SIZES = ("sample_shape", "classes", "vocabulary")


def build_network(
    model: str | Mapping[str, Any] | nn.Module,
    sample_shape: tuple[int, ...],
    classes: int,
    seed: int,
    classifier: str | None = None,
    *,
    vocabulary: int | None = None,
) -> Network:
    """A network from a name, a config section or a module. A module keeps the weights it has: they are the start.

    vocabulary: how many token numbers the data has, if its samples are texts.
    """
    if isinstance(model, nn.Module):
        if vocabulary is not None and isinstance(model, text.TEXT_MODELS):
            text.check_vectors(model.embedding, vocabulary)
        return Network(model, classes, classifier)
    values = complete_spec(model)
    name = values.pop("name")
    if vocabulary is not None and "vocabulary" in values:
        asked = convert(values["vocabulary"], int, f"model {name!r}: vocabulary")
        if asked < vocabulary:
            raise UsageError(f"model {name!r}: vocabulary = {asked} is too small; the data has {vocabulary} tokens")
    entry = MODELS.entry(name)
    known = zip(SIZES, (sample_shape, classes, vocabulary), strict=True)
    sizes = {size: value for size, value in known if size in entry.defaults and value is not None}
    module = build_with_seed(lambda: entry.build(**{**sizes, **values}), seed)
    return Network(module, classes, classifier)


def complete_spec(model: str | Mapping[str, Any]) -> dict[str, Any]:
    """Name and all values of a registered model, defaults filled in; the data decides the sizes that are left."""
    given = {"name": model} if isinstance(model, str) else dict(model)
    name = given.pop("name", None)
    if not isinstance(name, str):
        raise UsageError(f"model = {model!r} has no name; give one, e.g. {{name: mlp}}")
    empty = inspect.Parameter.empty
    defaults = {k: v for k, v in MODELS.entry(name).defaults.items() if v is not empty and k not in SIZES}
    for size in ("sample_shape", "classes"):
        if size in given:
            raise UsageError(f"model {name!r}: {size} is decided by the data; leave it out")
    return {"name": name, **defaults, **given}
