"""Tensors by name, taken together: one operation for all of a model's tensors, or for those of a whole cohort.

What a GPU is asked for costs the host microseconds each time, however small it is; a model has dozens of tensors and a
round dozens of models. Element by element nothing differs from a loop over the tensors, to the bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

Tensors = dict[str, Tensor]
LINE = 16  # numbers in a cache line, of float32


def unflattened(flat: Tensor, like: Mapping[str, Tensor]) -> Tensors:
    """Views of `flat[..., P]` with the names of `like` and shapes `[..., *shape]`; what is left of P is padding."""
    sizes = [t.numel() for t in like.values()]
    parts = torch.split(flat[..., : sum(sizes)], sizes, dim=-1)
    return {name: part.view((*flat.shape[:-1], *t.shape)) for (name, t), part in zip(like.items(), parts, strict=True)}


def client_rows(like: Mapping[str, Tensor], clients: int) -> tuple[Tensor, Tensors]:
    """0 for K clients in one matrix `[K, P]`, and views of it by name, `[K, ...]`.

    Rows begin at cache lines, so that no client's sums are rounded differently in another place of the stack.
    """
    some = next(iter(like.values()))
    wide = -(-sum(t.numel() for t in like.values()) // LINE) * LINE
    matrix = some.new_zeros(clients, wide)
    return matrix, unflattened(matrix, like)


def flattened(tensors: Mapping[str, Tensor], dtype: torch.dtype | None = None) -> tuple[Tensor, Tensors]:
    """One vector that holds all of them, and views of it by name."""
    if not tensors:
        return torch.empty(0, dtype=dtype), {}
    some = next(iter(tensors.values()))
    flat = some.new_empty(sum(t.numel() for t in tensors.values()), dtype=dtype)
    views = unflattened(flat, tensors)
    copy_each(views, tensors)
    return flat, views


def copy_each(places: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    """Copy values to the places of their names: those of one type together, as the fast way on a GPU wants them."""
    names: dict[torch.dtype, list[str]] = {}
    for name in places:
        names.setdefault(values[name].dtype, []).append(name)
    for alike in names.values():
        torch._foreach_copy_([places[name] for name in alike], [values[name] for name in alike])


def copied(tensors: Mapping[str, Tensor], like: Mapping[str, Tensor] | None = None) -> Tensors:
    """Copies, which share no memory; in the types of `like`, if that is given."""
    copies = {name: torch.empty_like(t) for name, t in (like or tensors).items()}
    copy_each(copies, tensors)
    return copies


def zeros(like: Mapping[str, Tensor]) -> Tensors:
    """0 in the shapes and types of `like`."""
    found = {name: torch.empty_like(t) for name, t in like.items()}
    if found:
        torch._foreach_zero_(list(found.values()))
    return found


def added(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> Tensors:
    """left + right, by the names of left."""
    return dict(zip(left, torch._foreach_add(list(left.values()), [right[name] for name in left]), strict=True))


def subtracted(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> Tensors:
    """left - right, by the names of left."""
    return dict(zip(left, torch._foreach_sub(list(left.values()), [right[name] for name in left]), strict=True))


def scaled(factor: float, tensors: Mapping[str, Tensor]) -> Tensors:
    """factor * tensors."""
    return dict(zip(tensors, torch._foreach_mul(list(tensors.values()), factor), strict=True))


def square_sums(tensors: Mapping[str, Tensor]) -> list[Tensor]:
    """The sum of each tensor's squares, in float64, still where the tensors are."""
    flat, _ = flattened(tensors, torch.float64)
    return [part.sum() for part in unflattened(flat.square_(), tensors).values()]


def square_norms(each: Sequence[Mapping[str, Tensor]]) -> list[float]:
    """||.||^2 of several models, read from the device together."""
    sums = [square_sums(tensors) for tensors in each]
    together = [number for own in sums for number in own]
    numbers = iter(torch.stack(together).tolist() if together else [])
    return [float(sum(next(numbers) for _ in own)) for own in sums]
