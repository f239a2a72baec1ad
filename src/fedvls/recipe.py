"""How a client trains locally, whatever the method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .errors import UsageError


@dataclass(frozen=True)
class Recipe:
    """Local training: plain SGD with momentum, the optimizer fresh for every client and round."""

    epochs: int = 5
    batch_size: int = 64
    lr: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 1e-5
    persistent_momentum: bool = False
    """Keep momentum buffers between rounds although the weights were replaced: what the authors' program does for its
    baselines. For study only."""
    teacher_mode: Literal["eval", "train"] = "eval"
    """BatchNorm mode of the teacher; "train" (batch statistics) is the authors' program."""
    max_steps: int | None = None
    """Stop after this many minibatches, however many epochs are left."""

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("batch_size", 1), ("weight_decay", 0.0)):
            if not getattr(self, name) >= least:
                raise UsageError(f"{name} = {getattr(self, name)} must be >= {least}")
        if not self.lr > 0:
            raise UsageError(f"lr = {self.lr} must be > 0")
        if not 0 <= self.momentum < 1:
            raise UsageError(f"momentum = {self.momentum} must be in [0, 1)")
