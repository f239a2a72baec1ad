"""What stands around the matrix products of Linear layers, in one launch each."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .launching import kernel
from .tiles import power


def biased_(y: Tensor, bias: Tensor, relu: bool) -> Tensor:
    """See `kernels.biased_`."""
    clients, batch, outputs = y.shape
    size = batch * outputs
    add_bias[(triton.cdiv(size, 1024), clients)](y, bias, bias.stride(0), size, OUTPUTS=outputs, RELU=relu, BLOCK=1024)
    return y


def bias_backward(slope: Tensor, y: Tensor, into: Tensor, relu: bool) -> Tensor:
    """See `kernels.bias_backward`."""
    clients, batch, outputs = slope.shape
    slope = slope.contiguous()
    before = torch.empty_like(slope) if relu else slope
    columns = power(outputs, most=32)
    sum_bias[(triton.cdiv(outputs, columns), clients)](
        slope, y, before, into, into.stride(0), batch, OUTPUTS=outputs, RELU=relu, BM=64, BO=columns
    )
    return before


@kernel(unaligned=("bias",), plain=("bias_stride", "size"))
def add_bias(y, bias, bias_stride, size, OUTPUTS: tl.constexpr, RELU: tl.constexpr, BLOCK: tl.constexpr):
    """y + bias, and ReLU behind it, in place: y `[K, B, OUTPUTS]`."""
    k = tl.program_id(1).to(tl.int64)
    e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = e < size
    at = y + k * size + e
    value = tl.load(at, mask=inside) + tl.load(bias + k * bias_stride + e % OUTPUTS, mask=inside)
    if RELU:
        value = tl.where(value < 0.0, 0.0, value)  # what is not a number stays so
    tl.store(at, value, mask=inside)


@kernel(unaligned=("slope", "into"), plain=("into_stride", "batch"))
def sum_bias(
    slope,
    y,
    before,
    into,
    into_stride,
    batch,
    OUTPUTS: tl.constexpr,
    RELU: tl.constexpr,
    BM: tl.constexpr,
    BO: tl.constexpr,
):
    """The slope before the ReLU, and its sum over the batch, row by row in a fixed order."""
    k = tl.program_id(1).to(tl.int64)
    o = tl.program_id(0) * BO + tl.arange(0, BO)
    inside = o < OUTPUTS
    slope += k * batch * OUTPUTS
    y += k * batch * OUTPUTS
    before += k * batch * OUTPUTS
    total = tl.zeros((BM, BO), slope.dtype.element_ty)
    for first in range(0, batch, BM):
        i = first + tl.arange(0, BM)
        there = (i < batch)[:, None] & inside[None, :]
        at = i[:, None] * OUTPUTS + o[None, :]
        g = tl.load(slope + at, mask=there, other=0.0)
        if RELU:
            g = tl.where(tl.load(y + at, mask=there, other=0.0) <= 0.0, 0.0, g)
            tl.store(before + at, g, mask=there)
        total += g
    tl.store(into + k * into_stride + o, tl.sum(total, 0), mask=inside)
