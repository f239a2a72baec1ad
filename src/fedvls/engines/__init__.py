"""Engines train a cohort; `choose` picks one and says why."""

from __future__ import annotations

from ..augment import Augmentation
from ..data.resident import ResidentData
from ..errors import unknown
from ..models.network import Network
from ..recipe import Recipe
from .base import ClientTask, Engine, Update
from .sequential import SequentialEngine

__all__ = ["ENGINES", "ClientTask", "Engine", "Recipe", "SequentialEngine", "Update", "choose"]

ENGINES = {"sequential": SequentialEngine}


def choose(name: str, network: Network, data: ResidentData, augmentation: Augmentation) -> tuple[Engine, str]:
    """The named engine, or for "auto" the fastest that supports this model and device, with the reason."""
    if name == "auto":
        reason = "the one engine there is: it supports every model, method and device"
        return SequentialEngine(network, data, augmentation), reason
    if name not in ENGINES:
        raise unknown("engine", name, ["auto", *ENGINES])
    return ENGINES[name](network, data, augmentation), "asked for"
