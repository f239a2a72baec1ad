"""2-d convolutions of K clients, each with weights of its own, one launch for all of them.

Libraries take a client axis for groups, and launch a kernel for each. Here a program multiplies matrices as if all
neighbourhoods had been written out side by side; it reads them from the images instead.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from . import tiles
from .launching import kernel

ONE = 1.0
"""Handed to the kernels so that the compiler does not know it. A GPU's matrix units cut what they add where others
round, and long sums drift; so each block's product begins at 0 and is added outside of them, which the compiler would
undo if it could."""


SIZES = ("B", "HI", "WI", "HO", "WO")
"""One kernel serves images of any size. With constants in their place, Triton 3.6 gave a wrong kernel for one size of
many (the gradient of 4x4 images with 512 channels)."""


class Window(NamedTuple):
    """Stride, padding and dilation of a convolution, down and across."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    def launch(self) -> dict[str, int]:
        """The keyword arguments of a kernel's launch."""
        pairs = {"S": self.stride, "P": self.padding, "D": self.dilation}
        return {f"{name}{axis}": value for name, pair in pairs.items() for axis, value in zip("HW", pair, strict=True)}


class Convolution(torch.autograd.Function):
    """x `[K, B, C, H, W]` with w `[K, O, C, h, w]`; what `conv2d` does for one client, without bias."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, window: Window) -> Tensor:
        x, w = x.contiguous(), w.contiguous()
        ctx.save_for_backward(x, w)
        ctx.window = window
        sides = zip(x.shape[3:], w.shape[3:], *window, strict=True)
        sizes = ((side + 2 * p - d * (taps - 1) - 1) // s + 1 for side, taps, s, p, d in sides)
        return _convolved(x, w, x.new_empty(*x.shape[:2], w.shape[1], *sizes), window, transposed=False)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, Tensor, None]:
        x, w = ctx.saved_tensors
        slope = slope.contiguous()
        dx = _convolved(slope, w, torch.empty_like(x), ctx.window, transposed=True) if ctx.needs_input_grad[0] else None
        return dx, _weight_gradient(slope, x, w, ctx.window), None


class MappedConvolution(torch.autograd.Function):
    """The same under `torch.func.vmap`, which hides the client axis from whoever calls it."""

    @staticmethod
    def forward(x: Tensor, w: Tensor, window: Window) -> Tensor:
        raise AssertionError("every client has weights of its own")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Its gradient is `Convolution`'s."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], x: Tensor, w: Tensor, window: Window) -> tuple[Tensor, int]:
        clients = info.batch_size
        x, w = (
            t.expand(clients, *t.shape) if axis is None else t.movedim(axis, 0)
            for t, axis in zip((x, w), in_dims[:2], strict=True)
        )
        return Convolution.apply(x, w, window), 0


def _convolved(x: Tensor, w: Tensor, y: Tensor, window: Window, *, transposed: bool) -> Tensor:
    """The convolution of x, or if `transposed` its gradient, where x and y change places."""
    clients, batch, inputs, *size = x.shape
    outputs, *out_size = y.shape[2:]
    tile = tiles.convolution(inputs * w[0, 0, 0].numel(), outputs, x.element_size() > 2)
    blocks = triton.cdiv(batch * out_size[0] * out_size[1], tile.rows) * triton.cdiv(outputs, tile.outputs)
    convolve[(blocks, clients)](
        x, w, y, ONE, batch, *size, *out_size, INPUTS=inputs, OUTPUTS=outputs,
        KH=w.shape[3], KW=w.shape[4], **window.launch(), TRANSPOSED=transposed, PRECISION=_precision(), **tile.launch(),
    )  # fmt: skip
    return y


def _weight_gradient(slope: Tensor, x: Tensor, w: Tensor, window: Window) -> Tensor:
    clients, batch, inputs, *size = x.shape
    outputs, *out_size = slope.shape[2:]
    columns = w[0, 0].numel()
    tile = tiles.convolution_weights(columns, outputs, x.element_size() > 2)
    blocks = triton.cdiv(columns, tile.inputs) * triton.cdiv(outputs, tile.outputs)
    rows = batch * out_size[0] * out_size[1]
    parts, share = tiles.splits(clients * blocks, rows, tile)
    found = w.new_empty(clients, parts, *w.shape[1:], dtype=torch.float32)
    weight_gradient[(blocks, parts, clients)](
        slope, x, found, ONE, batch, share, *size, *out_size, INPUTS=inputs, OUTPUTS=outputs,
        KH=w.shape[3], KW=w.shape[4], **window.launch(), PRECISION=_precision(), **tile.launch(),
    )  # fmt: skip
    return (found.squeeze(1) if parts == 1 else found.sum(1)).to(w.dtype)


def _precision() -> str:
    return tiles.precision(torch.backends.cuda.matmul.allow_tf32)


@triton.jit
def neighbours(
    x,
    m,
    e,
    rows,
    HI,
    WI,
    HO,
    WO,
    INPUTS: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    SH: tl.constexpr,
    SW: tl.constexpr,
    PH: tl.constexpr,
    PW: tl.constexpr,
    DH: tl.constexpr,
    DW: tl.constexpr,
    TRANSPOSED: tl.constexpr,
):
    """Numbers e (channel, tap down, tap across) of what output positions m (of `rows`, sample after sample) see,
    `[e, m]`. TRANSPOSED: of the outputs that saw them."""
    down = (m % (HO * WO) // WO)[None, :]
    across = (m % WO)[None, :]
    u = (e % (KH * KW) // KW)[:, None] * DH
    v = (e % KW)[:, None] * DW
    there = (e < INPUTS * KH * KW)[:, None] & (m < rows)[None, :]
    if TRANSPOSED:
        row = down + PH - u
        column = across + PW - v
        there = there & (row >= 0) & (column >= 0)
        if SH > 1:
            there = there & (row % SH == 0)
            row = row // SH
        if SW > 1:
            there = there & (column % SW == 0)
            column = column // SW
    else:
        row = down * SH + u - PH
        column = across * SW + v - PW
        there = there & (row >= 0) & (column >= 0)
    there = there & (row < HI) & (column < WI)
    image = (e // (KH * KW))[:, None] + (m // (HO * WO) * INPUTS)[None, :]
    return tl.load(x + image * (HI * WI) + row * WI + column, mask=there, other=0.0)


@kernel(plain=SIZES)
def convolve(
    x,
    w,
    y,
    one,
    B,
    HI,
    WI,
    HO,
    WO,
    INPUTS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    SH: tl.constexpr,
    SW: tl.constexpr,
    PH: tl.constexpr,
    PW: tl.constexpr,
    DH: tl.constexpr,
    DW: tl.constexpr,
    TRANSPOSED: tl.constexpr,
    PRECISION: tl.constexpr,
    BM: tl.constexpr,
    BI: tl.constexpr,
    BO: tl.constexpr,
):
    """y `[K, B, O, HO, WO]` of x `[K, B, I, HI, WI]`. TRANSPOSED: the weights are `[K, I, O, KH, KW]`."""
    TAPS: tl.constexpr = KH * KW
    of_output: tl.constexpr = TAPS if TRANSPOSED else INPUTS * TAPS
    of_input: tl.constexpr = OUTPUTS * TAPS if TRANSPOSED else TAPS
    o_tiles: tl.constexpr = (OUTPUTS + BO - 1) // BO
    k = tl.program_id(1).to(tl.int64)
    m = tl.program_id(0) // o_tiles * BM + tl.arange(0, BM)
    o = tl.program_id(0) % o_tiles * BO + tl.arange(0, BO)
    rows = B * (HO * WO)
    x += k * B * (INPUTS * HI * WI)
    w += k * (OUTPUTS * INPUTS * TAPS)
    y += k * B * (OUTPUTS * HO * WO)
    total = tl.zeros((BO, BM), tl.float32)
    for start in range(0, INPUTS * TAPS, BI):
        e = start + tl.arange(0, BI)
        at = o[:, None] * of_output + (e // TAPS * of_input + e % TAPS)[None, :]
        left = tl.load(w + at, mask=(o < OUTPUTS)[:, None] & (e < INPUTS * TAPS)[None, :], other=0.0)
        right = neighbours(
            x, m, e, rows, HI, WI, HO, WO, INPUTS, KH, KW, SH, SW, PH, PW, DH, DW, TRANSPOSED,
        )  # fmt: skip
        total += one * tl.dot(left, right, input_precision=PRECISION)
    at = o[:, None] * (HO * WO) + (m // (HO * WO) * (OUTPUTS * HO * WO) + m % (HO * WO))[None, :]
    tl.store(y + at, total.to(y.dtype.element_ty), mask=(o < OUTPUTS)[:, None] & (m < rows)[None, :])


@kernel(plain=(*SIZES, "share"))
def weight_gradient(
    slope,
    x,
    out,
    one,
    B,
    share,
    HI,
    WI,
    HO,
    WO,
    INPUTS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    SH: tl.constexpr,
    SW: tl.constexpr,
    PH: tl.constexpr,
    PW: tl.constexpr,
    DH: tl.constexpr,
    DW: tl.constexpr,
    PRECISION: tl.constexpr,
    BM: tl.constexpr,
    BI: tl.constexpr,
    BO: tl.constexpr,
):
    """dw of this split's `share` positions, `[K, S, O, I KH KW]`."""
    COLUMNS: tl.constexpr = INPUTS * KH * KW
    e_tiles: tl.constexpr = (COLUMNS + BI - 1) // BI
    k = tl.program_id(2).to(tl.int64)
    split = tl.program_id(1)
    o = tl.program_id(0) // e_tiles * BO + tl.arange(0, BO)
    e = tl.program_id(0) % e_tiles * BI + tl.arange(0, BI)
    x += k * B * (INPUTS * HI * WI)
    slope += k * B * (OUTPUTS * HO * WO)
    start = split * share
    end = tl.minimum(start + share, B * (HO * WO))
    total = tl.zeros((BO, BI), tl.float32)
    for first in range(start, end, BM):
        m = first + tl.arange(0, BM)
        at = o[:, None] * (HO * WO) + (m // (HO * WO) * (OUTPUTS * HO * WO) + m % (HO * WO))[None, :]
        left = tl.load(slope + at, mask=(o < OUTPUTS)[:, None] & (m < end)[None, :], other=0.0)
        right = neighbours(x, m, e, end, HI, WI, HO, WO, INPUTS, KH, KW, SH, SW, PH, PW, DH, DW, False)
        total += one * tl.dot(left, tl.trans(right), input_precision=PRECISION)
    out += (k * tl.num_programs(1) + split) * (OUTPUTS * COLUMNS)
    tl.store(out + o[:, None] * COLUMNS + e[None, :], total, mask=(o < OUTPUTS)[:, None] & (e < COLUMNS)[None, :])
