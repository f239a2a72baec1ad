"""Programs: which clients share a model in which round."""

from .base import Group, Program, Setting
from .calibration import Calibration
from .concatenation import Concatenation

__all__ = ["Calibration", "Concatenation", "Group", "Program", "Setting"]
