"""Tensors at fixed places in memory, where captured steps look for them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ..flat import copy_each
from .base import Tensors
from .capture import Replay
from .samples import pinned


class Places(dict[str, Tensor]):
    """Tensors by name. One that is written again is copied to where it was.

    A place that is too small or of another shape is replaced, and what was captured is forgotten. Where nothing is
    captured, tensors may stay where they are.
    """

    def __init__(self, device: torch.device, replay: Replay) -> None:
        super().__init__()
        self.device, self.replay = device, replay

    def write(self, name: str, value: Tensor, grows: bool = False) -> Tensor:
        """Put the value in its place, which may be longer if it `grows`."""
        place = self._of(name, value, grows)
        if place is not value:
            (place[: len(value)] if grows else place).copy_(pinned(value, self.device), non_blocking=True)
        return place

    def write_all(self, kind: str, values: Mapping[str, Tensor]) -> Tensors:
        """The same for values that are on the device already."""
        places = {name: self._of(f"{kind}/{name}", value) for name, value in values.items()}
        copy_each({name: place for name, place in places.items() if place is not values[name]}, values)
        return places

    def _of(self, name: str, value: Tensor, grows: bool = False) -> Tensor:
        if not self.replay.enabled and value.device == self.device:
            self[name] = value
            return value
        place = self.get(name)
        fits = place is not None and place.dtype == value.dtype and place.shape[1:] == value.shape[1:]
        if not fits or place is None or (len(place) < len(value) if grows else place.shape != value.shape):
            self.replay.forget()
            place = self[name] = torch.empty_like(value, device=self.device)
        return place
