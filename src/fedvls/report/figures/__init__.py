"""Figures as files. Nothing is told by colour alone."""

from .files import ENDINGS, check_ending, save
from .kinds import KINDS, Kind, draw, find_kind
from .lines import convergence
from .local import local_effect
from .matrices import partition_heat_map

__all__ = [
    "ENDINGS",
    "KINDS",
    "Kind",
    "check_ending",
    "convergence",
    "draw",
    "find_kind",
    "local_effect",
    "partition_heat_map",
    "save",
]
