"""Engines train a cohort; `choose` picks one and says why."""

from __future__ import annotations

from collections.abc import Callable

from ..augment import Augmentation
from ..data.resident import ResidentData
from ..errors import UsageError, unknown
from ..models.network import Network
from ..recipe import Recipe
from .base import ClientTask, Engine, RoundJob, Update
from .parallel import ParallelEngine, cores, is_supported
from .sequential import SequentialEngine

__all__ = [
    "ENGINES",
    "ClientTask",
    "Engine",
    "ParallelEngine",
    "Recipe",
    "RoundJob",
    "SequentialEngine",
    "Update",
    "choose",
]

ENGINES: dict[str, Callable[[Network, ResidentData, Augmentation], Engine]] = {
    "sequential": SequentialEngine,
    "parallel": ParallelEngine,
}


def choose(name: str, network: Network, data: ResidentData, augmentation: Augmentation) -> tuple[Engine, str]:
    """The named engine, or for "auto" the fastest that supports this model and device, with the reason."""
    if name == "auto":
        if is_supported(data):
            return ParallelEngine(network, data, augmentation), f"on a CPU it is the fastest; {cores()} processes"
        return SequentialEngine(network, data, augmentation), "it supports every model, method and device"
    if name not in ENGINES:
        raise unknown("engine", name, ["auto", *ENGINES])
    if name == "parallel" and not is_supported(data):
        raise UsageError("engine 'parallel' needs a CPU, fork() and a PyTorch without a GPU; use --engine sequential")
    return ENGINES[name](network, data, augmentation), "asked for"
