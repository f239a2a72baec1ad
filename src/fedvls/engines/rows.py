"""Rows of a parameter that a step does not touch, brought up to date only when one does.

A minibatch of texts reads a few thousand vectors of tokens, and the gradient of all others is 0. What SGD does to those
follows from how many steps they have waited, so they can wait: a step costs what its own tokens cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..recipe import Recipe

EVEN = 64  # rows are taken in such numbers: sums add up to 64 numbers at a time, and zeros behind must not change them


@dataclass(frozen=True)
class Waiting:
    """What k = 0, 1, ... steps without a gradient do to a row w.

    SGD with momentum m, weight decay c and a pull mu/2 ||w - w0||^2 towards w0 moves p = w - w0 and the velocity v by

        v' = m v + (c + mu) p + c w0,    p' = p - lr v',

    which is linear in z = (p, v, w0), so that k steps are the k-th power of a 3x3 matrix. Meanwhile the pull adds
    mu/2 * sum over j < k of ||p_j||^2 to the objective, a quadratic form of z. Without a pull, w0 is taken for 0.
    """

    powers: Tensor
    """`[K, 2, 3]`: p and v after k steps, as sums of z."""
    costs: Tensor
    """`[K, 3, 3]`: the quadratic form."""
    pulls: bool
    """Whether there is a pull."""

    @classmethod
    def of(cls, recipe: Recipe, pull: float, steps: int) -> Waiting:
        """For up to so many steps, in float64."""
        decay, lr, momentum = recipe.weight_decay, recipe.lr, recipe.momentum
        velocity = np.array([decay + pull, momentum, decay])
        one = np.stack([np.array([1.0, 0.0, 0.0]) - lr * velocity, velocity, np.array([0.0, 0.0, 1.0])])
        powers, costs = [np.eye(3)], [np.zeros((3, 3))]
        for _ in range(steps):
            moved = powers[-1][0]
            costs.append(costs[-1] + pull / 2 * np.outer(moved, moved))
            powers.append(one @ powers[-1])
        return cls(torch.from_numpy(np.stack(powers)[:, :2].copy()), torch.from_numpy(np.stack(costs)), pull != 0)

    def to(self, dtype: torch.dtype) -> Waiting:
        """Rounded to the type of the rows."""
        return Waiting(self.powers.to(dtype), self.costs.to(dtype), self.pulls)

    def moved(self, steps: Tensor, *z: Tensor) -> tuple[Tensor, Tensor]:
        """p and v of rows `[N, d]` that waited `steps[N]`; z: p, v and, with a pull, w0."""
        factors = self.powers.index_select(0, steps).unsqueeze(-1)
        p, v = (_sum_of_products([(factors[:, i, j], z[j]) for j in range(len(z))]) for i in range(2))
        return p, v

    def cost(self, steps: Tensor, *z: Tensor) -> Tensor:
        """What the pull cost each row meanwhile, `[N]`."""
        factors = self.costs.index_select(0, steps)
        pairs = [(i, j) for i in range(3) for j in range(i, 3)]
        return _sum_of_products([(factors[:, i, j] * (1 + (i < j)), (z[i] * z[j]).sum(-1)) for i, j in pairs])


def _sum_of_products(pairs: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """sum_i a_i * b_i."""
    (first, second), *others = pairs
    total = first * second
    for pair in others:
        total.addcmul_(*pair)
    return total


@dataclass(frozen=True)
class Taken:
    """The rows of the clients' minibatches, `[K, U, d]`, as they are before a step; changed in place, then put back."""

    source: WaitingRows
    tokens: np.ndarray
    """`[K, U]`: which rows these are."""
    minibatch: Tensor
    """`[K, B, L]`: its tokens, in numbers of these rows."""
    where: np.ndarray
    weights: Tensor
    velocity: Tensor
    gradient: Tensor
    """To be written."""
    received: Tensor | None
    """The rows they are pulled to, if they are."""

    def of_sent(self, sent: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """What the server sent, of this parameter (`.../its name`) these rows alone. Where a client has fewer, any row
        will do: its minibatch does not have it."""
        mine = [key for key in sent if key.endswith(f"/{self.source.name}")]
        if not mine:
            return sent
        there = torch.from_numpy(np.minimum(self.tokens, self.source.count - 1))
        return {**sent, **{key: sent[key][there] for key in mine}}

    def put_back(self) -> None:
        """After the step."""
        for place, value in ((self.source.weights, self.weights), (self.source.velocity, self.velocity)):
            _items(place)[self.where] = _items(value)


class WaitingRows:
    """A parameter `[V, d]` of K clients, each row as it was after the last step that touched it.

    Behind a client's rows is one more that is always 0: number V, for clients whose minibatches have fewer tokens.
    """

    def __init__(self, name: str, received: Tensor, weights: Tensor, velocity: Tensor, waiting: Waiting) -> None:
        """received `[V, d]`: what all begin with; weights and velocity `[K, V, d]`: where all are to be in the end, the
        velocity also where it is at first."""
        self.name, self.count, self.waiting = name, len(received), waiting.to(received.dtype)
        self.ends = weights, velocity
        self.received = torch.cat([received, torch.zeros_like(received[:1])])
        self.weights = self.received.repeat(len(velocity), 1, 1)
        self.velocity = torch.zeros_like(self.weights)
        self.velocity[:, :-1] = velocity
        self.reached = np.zeros(self.weights.shape[:2], np.int64)
        self.costs = torch.zeros(len(velocity), dtype=torch.float64)

    def take(self, clients: slice, minibatch: Tensor, step: int) -> Taken:
        """The rows that these clients' minibatches `[K, B, L]` of this step have."""
        tokens, minibatch = renumbered(minibatch, self.count)
        where = (tokens + (self.count + 1) * np.arange(clients.start, clients.stop)[:, None]).reshape(-1)
        weights, velocity = (_rows(_items(t).take(where), t) for t in (self.weights, self.velocity))
        received = self.received.index_select(0, torch.from_numpy(tokens.reshape(-1))) if self.waiting.pulls else None
        waited = torch.from_numpy(step - self.reached.take(where))
        weights, velocity, cost = self._current(waited, weights, velocity, received)
        if cost is not None:
            self.costs[clients] += cost.view(tokens.shape).sum(1)
        self.reached.reshape(-1)[where] = step + 1
        shape = (*tokens.shape, -1)
        weights, velocity = weights.view(shape), velocity.view(shape)
        received = None if received is None else received.view(shape)
        return Taken(self, tokens, minibatch, where, weights, velocity, torch.empty_like(weights), received)

    def finish(self, steps: np.ndarray) -> Tensor:
        """Bring all rows of the first clients to where these have taken so many steps, and to their places. What the
        pull cost rows while they waited, `[K]`."""
        received = self.received if self.waiting.pulls else None
        for client, count in enumerate(steps):
            waited = torch.from_numpy(int(count) - self.reached[client])
            *current, cost = self._current(waited, self.weights[client], self.velocity[client], received)
            for place, value in zip(self.ends, current, strict=True):
                place[client].copy_(value[:-1])
            if cost is not None:
                self.costs[client] += cost.sum()
        return self.costs

    def _current(
        self, waited: Tensor, weights: Tensor, velocity: Tensor, received: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Rows `[N, d]` after having waited, and what the pull cost each of them meanwhile."""
        if received is None:
            return *self.waiting.moved(waited, weights, velocity), None
        z = (weights - received, velocity, received)
        moved, velocity = self.waiting.moved(waited, *z)
        return moved.add_(received), velocity, self.waiting.cost(waited, *z)


def _items(rows: Tensor) -> np.ndarray:
    """Rows `[K, V, d]` as K V items of an array: numpy moves them two to three times as fast as PyTorch moves rows."""
    array = rows.flatten(0, 1).numpy()
    return array.view(np.dtype((np.void, array.strides[0])))[:, 0]


def _rows(items: np.ndarray, like: Tensor) -> Tensor:
    """Items as rows `[N, d]` again."""
    return torch.from_numpy(items.view(np.uint8)).view(like.dtype).view(len(items), -1)


def renumbered(tokens: Tensor, count: int) -> tuple[np.ndarray, Tensor]:
    """The tokens that each client's minibatch `[K, B, L]` has, sorted, `[K, U]`; and the minibatch in numbers of these.

    0 is padding and keeps its number, in the minibatch or not. count: of all tokens; where a client has fewer than U,
    it stands for the missing ones.
    """
    offsets = count * np.arange(len(tokens))
    each = (tokens.flatten(1).numpy() + offsets[:, None]).reshape(-1)
    occurs = np.zeros(count * len(tokens), np.bool_)
    occurs[each] = occurs[offsets] = True
    found = np.flatnonzero(occurs)
    firsts = np.searchsorted(found, [*offsets, len(occurs)])
    sizes = firsts[1:] - firsts[:-1]
    client = np.repeat(np.arange(len(tokens)), sizes)
    numbers = np.arange(len(found)) - firsts[client]
    vocabulary = np.full((len(tokens), -(-sizes.max() // EVEN) * EVEN), count)
    vocabulary[client, numbers] = found - offsets[client]
    number_of = np.empty(len(occurs), np.int64)
    number_of[found] = numbers
    return vocabulary, torch.from_numpy(number_of.take(each)).view(tokens.shape)
