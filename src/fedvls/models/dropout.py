"""Dropout with a key: a mask is a function of the key, of how many masks the same forward pass has drawn before, and of
the element's place. So all engines draw the same masks, and a captured step takes its key as it takes its samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor, nn

from .. import rng


class _Pass:
    """A forward pass: its key, and how many masks it has drawn. A layer that is called twice draws two."""

    def __init__(self, key: Tensor) -> None:
        self.key, self.drawn = key, 0


_pass: ContextVar[_Pass | None] = ContextVar("pass", default=None)


@contextmanager
def keyed(key: Tensor | None) -> Iterator[None]:
    """Around one forward pass: dropout takes its masks from this key, two int32 words made by `rng.word_pairs`. None:
    from PyTorch's generator, as outside of it.

    A network with a client axis gets one key per client, `[K, 2]`, and hands each client its own.
    """
    token = _pass.set(None if key is None else _Pass(key))
    try:
        yield
    finally:
        _pass.reset(token)


def current_key() -> Tensor | None:
    """What `keyed` was given."""
    at_hand = _pass.get()
    return None if at_hand is None else at_hand.key


class Keyed(nn.modules.dropout._DropoutNd):
    """In train mode and with a key at hand, a mask from the key; in all else the PyTorch layer it is made of."""

    def forward(self, input: Tensor) -> Tensor:
        at_hand = _pass.get()
        if at_hand is None or not self.training or self.p == 0:
            result: Tensor = super().forward(input)
            return result
        noise = self._noise(input, at_hand)
        return input.mul_(noise) if self.inplace else input * noise

    def units(self, x: Tensor) -> Sequence[int]:
        """The shape of what is kept or dropped as a whole, broadcastable to x. Samples come first: padding behind them
        leaves their masks as they are."""
        return x.shape

    def _noise(self, x: Tensor, at_hand: _Pass) -> Tensor:
        """0 with probability p, else 1 / (1 - p)."""
        shape = self.units(x)
        if self.p == 1:
            return x.new_zeros(shape)
        words = rng.hashed(at_hand.key, at_hand.drawn, math.prod(shape)).view(shape)
        at_hand.drawn += 1
        kept = words >= min(round(self.p * 2**32) - 2**31, 2**31 - 1)
        return kept.to(x.dtype).div_(1 - self.p)


class _KeyedChannels(Keyed):
    without_batch = 0
    """How many axes make the layer take the first one for channels, not for samples."""

    def units(self, x: Tensor) -> Sequence[int]:
        leading = 1 if x.dim() == self.without_batch else 2
        return *x.shape[:leading], *(1,) * (x.dim() - leading)


class KeyedDropout(Keyed, nn.Dropout):
    """Drops single numbers."""


class KeyedDropout1d(_KeyedChannels, nn.Dropout1d):
    """Drops channels of sequences."""

    without_batch = 2


class KeyedDropout2d(_KeyedChannels, nn.Dropout2d):
    """Drops channels of images."""


class KeyedDropout3d(_KeyedChannels, nn.Dropout3d):
    """Drops channels of volumes."""

    without_batch = 4


KEYED: dict[type[nn.Module], type[nn.Module]] = {
    nn.Dropout: KeyedDropout,
    nn.Dropout1d: KeyedDropout1d,
    nn.Dropout2d: KeyedDropout2d,
    nn.Dropout3d: KeyedDropout3d,
}


def with_keys(module: nn.Module) -> nn.Module:
    """The same module, whose dropout layers, where they are PyTorch's own, now look for a key.

    They change their class and nothing else: names, hooks and shared layers stay.
    """
    return _of_classes(module, KEYED)


def without_keys(module: nn.Module) -> nn.Module:
    """The same module with PyTorch's own dropout layers again: what users are given back."""
    return _of_classes(module, {mine: theirs for theirs, mine in KEYED.items()})


def _of_classes(module: nn.Module, classes: Mapping[type[nn.Module], type[nn.Module]]) -> nn.Module:
    for layer in module.modules():
        if type(layer) in classes:
            layer.__class__ = classes[type(layer)]
    return module


def draws_masks(module: nn.Module) -> bool:
    """Whether a forward pass in the module's present mode wants a key."""
    return any(isinstance(layer, Keyed) and layer.training and layer.p > 0 for layer in module.modules())
