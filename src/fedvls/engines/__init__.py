"""Engines train a cohort; `choose` picks one and says why."""

from __future__ import annotations

from .base import ClientTask, Engine, RoundJob, Update
from .choice import ENGINES, check_engine, choose

__all__ = ["ENGINES", "ClientTask", "Engine", "RoundJob", "Update", "check_engine", "choose"]
