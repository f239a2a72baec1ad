"""SGD with momentum and weight decay of clients side by side, in one pass over memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial

import torch
from torch import Tensor

from ..flat import unflattened
from ..recipe import Recipe

Place = tuple[Tensor, Tensor, Tensor]
"""Weights, their gradient and their velocity."""


class Descent:
    """Of matrices `[K, P]`: each row a client's parameters, in one order."""

    def __init__(self, weights: Tensor, gradients: Tensor, velocity: Tensor, like: Mapping[str, Tensor]) -> None:
        """like: the parameters by name, in that order."""
        self._rows: Place = (weights, gradients, velocity)
        self._like = {name: torch.empty(t.shape, device="meta") for name, t in like.items()}
        self._parts: dict[tuple[int, int, frozenset[str]], list[Place]] = {}

    def follow(self, recipe: Recipe) -> None:
        """From now on, move as it says."""
        self._has_momentum = recipe.momentum > 0
        self._move = partial(
            torch._fused_sgd_,
            weight_decay=recipe.weight_decay,
            momentum=recipe.momentum,
            lr=recipe.lr,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=False,
        )

    @cached_property
    def _each(self) -> dict[str, tuple[Sequence[Tensor], Sequence[Tensor]]]:
        """Each client's weights and velocity by name. Made when wanted: a thousand clients have many."""
        weights, velocity = (unflattened(rows, self._like) for rows in (self._rows[0], self._rows[2]))
        return {name: (weights[name].unbind(), velocity[name].unbind()) for name in self._like}

    def at_once(self, own: slice, landed: set[str]) -> Callable[[str, int, Tensor], None]:
        """A function that moves one parameter of one of the clients `own` along a gradient that has just been computed
        and is still in the cache. Its name is added to `landed`."""

        def land(name: str, client: int, gradient: Tensor) -> None:
            weights, velocity = self._each[name]
            place = own.start + client
            self._move([weights[place]], [gradient], [velocity[place]] if self._has_momentum else [])
            landed.add(name)

        return land

    def others(self, own: slice, done: set[str], more: Sequence[Place] = ()) -> None:
        """Move all parameters of the clients `own` but those that are done, and with them what lies elsewhere."""
        key = (own.start, own.stop, frozenset(done))
        if key not in self._parts:
            self._parts[key] = list(self._left(own, done))
        places = [*self._parts[key], *more]
        if places:
            weights, gradients, velocity = map(list, zip(*places, strict=True))
            self._move(weights, gradients, velocity if self._has_momentum else [])

    def _left(self, own: slice, done: set[str]) -> Iterator[Place]:
        """The rows, cut where parameters are done."""
        if not done:
            yield tuple(rows[own] for rows in self._rows)  # type: ignore[misc]
            return
        begin = end = 0
        for name, size in [*((name, t.numel()) for name, t in self._like.items()), ("", 0)]:
            if name in done or not name:
                if end > begin:
                    yield from zip(*(rows[own, begin:end].unbind() for rows in self._rows), strict=True)
                begin = end + size
            end += size
