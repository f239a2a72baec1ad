"""Engines train a cohort; `choose` picks one and says why."""

from __future__ import annotations

from ..data.resident import ResidentData
from ..errors import unknown
from ..models.network import Network
from .base import ClientTask, Engine, Recipe, Update
from .sequential import SequentialEngine

__all__ = ["ENGINES", "ClientTask", "Engine", "Recipe", "SequentialEngine", "Update", "choose"]

ENGINES = {"sequential": SequentialEngine}


def choose(name: str, network: Network, data: ResidentData) -> tuple[Engine, str]:
    """The named engine, or for "auto" the fastest that supports this model and device, with the reason."""
    if name == "auto":
        return SequentialEngine(network, data), "the one engine there is: it supports every model, method and device"
    if name not in ENGINES:
        raise unknown("engine", name, ["auto", *ENGINES])
    return ENGINES[name](network, data), "asked for"
