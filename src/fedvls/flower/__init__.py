"""Real federations on Flower: a ClientApp and a ServerApp around the same `Method` that the simulator trains.

    from fedvls.flower import client_app, server_app

Nothing else in the package imports Flower; it comes with the extra `fedvls[flower]`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ..errors import UsageError

if TYPE_CHECKING:
    from .client import client_app
    from .server import server_app

__all__ = ["client_app", "server_app"]

_HOME = {"client_app": "client", "server_app": "server"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        importlib.import_module("flwr")
    except ImportError:
        raise UsageError("fedvls.flower needs Flower: pip install 'fedvls[flower]'") from None
    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
