"""Products of clients' matrices on a CPU, by the faster of the two libraries that PyTorch has for them.

PyTorch hands float32 products to MKL, which leaves AVX-512 alone on processors that are not Intel's: an AMD EPYC took
218 us for 64x784 times 784x200 where oneDNN took 99. oneDNN is reached through the operator behind compiled Linear
layers. That takes one product at a time and 12 us for a call, so small products stay with MKL. Products of bfloat16 are
oneDNN's anyway, and it has none of float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

LARGE = 1 << 20
"""Multiplications in a product from which on oneDNN is faster, its call included."""
TURNED = 4
"""So many times as many, where matrices have to be transposed for it."""
TILE, FEW = 16, 6
"""Columns that slow MKL takes at once, and how many may be missing for them to be worth adding."""


def has_onednn() -> bool:
    """Whether this PyTorch has the operator; builds for some processors, Apple's among them, are without oneDNN."""
    return hasattr(torch.ops.mkldnn, "_linear_pointwise")


@cache
def mkl_is_slow() -> bool:
    """Whether MKL does without instructions that oneDNN would use.

    What the processor is decides it, never a clock: the same machine has to round alike every time.
    """
    return has_onednn() and torch.backends.cpu.get_cpu_capability() == "AVX512" and vendor() == "AuthenticAMD"


def vendor(told: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's maker, by the name it gives itself; empty where that cannot be read."""
    try:
        lines = told.read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("vendor_id")), "")


def aligned(numbers: int) -> int:
    """The next multiple of four. If a client's matrix has so many columns, or numbers, the next client's begins at a
    multiple of 16 bytes. From elsewhere MKL rounds differently: sums would depend on a client's place in a stack."""
    return -(-numbers // 4) * 4


def each_aligned(matrices: Tensor) -> Tensor:
    """`[K, m, k]`, copied if they begin elsewhere. A stack's own parameters do, points near them may not."""
    clients, size = len(matrices), matrices[0].numel()
    if clients == 1 or aligned(matrices.stride(0)) == matrices.stride(0):
        return matrices
    places: Tensor = matrices.new_empty(clients, aligned(size))[:, :size].view(matrices.shape)
    return places.copy_(matrices)


def good_width(columns: int) -> int:
    """How many columns are best multiplied, if those that are missing may be padding.

    Slow MKL likes sixteen: 200x200 times 200x10 takes 29 us, and times 200x16 18. But times 200x8 takes 21.
    """
    full = -(-columns // TILE) * TILE
    return full if mkl_is_slow() and full - columns <= FEW else aligned(columns)


def suits_onednn(left: Tensor, columns: int, times: int = 1) -> bool:
    """Whether left `[K, m, k]` times some `[K, k, columns]` is for oneDNN: float32, and so many times as large as it
    has to be."""
    large = left.size(1) * left.size(2) * columns >= times * LARGE
    return large and left.dtype == torch.float32 and left.is_cpu and mkl_is_slow()


def times_transposed(left: Tensor, right: Tensor, into: Tensor | None = None) -> Tensor:
    """left `[K, m, k]` times right `[K, n, k]` transposed: `[K, m, n]`, written `into` that if it is given."""
    if not suits_onednn(left, right.shape[1]):
        if into is None or into.dtype == left.dtype:
            return torch.bmm(left, right.mT) if into is None else torch.bmm(left, right.mT, out=into)
        return into.copy_(torch.bmm(left, right.mT))
    found = left.new_empty(*left.shape[:2], right.shape[1]) if into is None else into
    for place, product in zip(found.unbind(), by_onednn(left, right), strict=True):
        place.copy_(product)
    return found


def by_onednn(left: Tensor, right: Tensor) -> Iterator[Tensor]:
    """The clients' `times_transposed`, one after another."""
    product = torch.ops.mkldnn._linear_pointwise.default
    for one, other in zip(left.unbind(), right.unbind(), strict=True):
        yield product(one, other, None, "none", [], "")


def transposed_times(left: Tensor, right: Tensor) -> Tensor:
    """left `[K, k, m]` transposed times right `[K, k, n]`: `[K, m, n]`.

    oneDNN takes its first factor row by row and would copy a transposed one. Here that is the smaller, right.
    """
    if not suits_onednn(left.mT, right.shape[2], TURNED):
        return torch.bmm(left.mT, right)
    return times_transposed(right.mT.contiguous(), left.mT).mT.contiguous()


def plus_product(bias: Tensor | None, left: Tensor, right: Tensor) -> Tensor:
    """`times_transposed`, and bias `[K, m]` added to every column."""
    if bias is None:
        return times_transposed(left, right)
    if suits_onednn(left, right.size(1)):
        found = left.new_empty(*left.shape[:2], right.size(1))
        pluses = bias.unsqueeze(2).unbind()
        for place, product, plus in zip(found.unbind(), by_onednn(left, right), pluses, strict=True):
            torch.add(product, plus, out=place)
        return found
    return torch.baddbmm(bias.unsqueeze(2), left, right.mT)
