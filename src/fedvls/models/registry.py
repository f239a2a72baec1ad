"""Models by name."""

from __future__ import annotations

from torch import nn

from ..registry import Registry

MODELS: Registry[nn.Module] = Registry("model")
