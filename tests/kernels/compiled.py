"""The Triton kernels compiled for a Hopper GPU, on a machine without one: `python compiled.py [overlapping|spilling]`.

In a process of its own, because the compiler is told of a GPU that is not there. Prints one line per kernel: its name,
which of asynchronous copies and products of warp groups its code has, and whether its numbers spill from the registers
into memory. `overlapping`: with a block that has both; `spilling`: with one far too large.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

from fedvls.kernels import batch_norms, tiles
from fedvls.kernels.fused import Fused
from fedvls.kernels.values import Delta, Raw, Source

CLIENTS, BATCH, SIZE = 2, 4, 4
HOPPER = GPUTarget("cuda", 90, 32)
SPILLING = 1024
"""Bytes of a thread in memory. A few hundred cost little; the block that took 15 times as long had 12,488."""


class Absent:
    """What the compiler asks of a GPU."""

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _: object = None) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return HOPPER

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")


def tell(function: JITFunction, *args: Any, grid: tuple[int, ...], warmup: bool, **options: Any) -> None:
    """In place of a launch: compile, and say what the code has."""
    code = launch(function, *args, grid=grid, warmup=True, **options).asm
    parts = [word for word, sign in (("copies", "cp.async"), ("groups", "wgmma.mma_async")) if sign in code["ptx"]]
    spilled = ["spills"] if in_memory(code["cubin"]) > SPILLING else []
    print(function.fn.__name__, *parts, *spilled)


def in_memory(binary: bytes) -> int:
    """Bytes that each thread keeps outside the registers."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        ask = [triton.knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
        told = subprocess.run(ask, capture_output=True, text=True, check=True).stdout
    found = re.search(r"STACK:(\d+)", told)
    assert found is not None, told
    return int(found[1])


def products(compute: torch.dtype, inputs: int, outputs: int, tf32: bool = False) -> None:
    """Forward and backward of a 1x1 convolution, behind a BatchNorm and without."""
    ops = Fused(compute, tf32)
    rows = torch.full((CLIENTS,), BATCH, dtype=torch.int32)

    def image(channels: int) -> torch.Tensor:
        return torch.zeros(CLIENTS, BATCH, SIZE, SIZE, channels, dtype=compute)

    normal, w = torch.zeros(CLIENTS, 4, inputs), torch.zeros(CLIENTS, outputs, inputs, dtype=compute)
    made = Raw(image(inputs), normal)
    delta = Delta(image(outputs), image(outputs), torch.zeros(CLIENTS, 3, outputs))
    for source in (Source(*made, (made,), relu=True), Source(made.y, None, (made,), relu=False)):
        ops.pointwise(source.x, w, source.normal, rows)
        into = torch.zeros(CLIENTS, outputs, inputs, 1, 1)
        g, sums, left = ops.pointwise_backward(delta, w, source, rows, into, None, wanted=True)
        ops.moments(sums, 1, g, made, rows, (torch.zeros(CLIENTS, inputs), torch.zeros(CLIENTS, inputs)), left)


def norm(compute: torch.dtype, channels: int) -> None:
    """BatchNorm for any module, forward and backward."""
    x = torch.zeros(BATCH, channels, SIZE, SIZE, dtype=compute).contiguous(memory_format=torch.channels_last)
    gamma, beta, mean, var = (torch.zeros(channels) for _ in range(4))
    y = batch_norms.batch_norm(x.requires_grad_(), gamma, beta, (mean, var), None, 1e-5, 0.1)
    assert y is not None
    torch.autograd.grad(y, x, torch.zeros_like(y))


if __name__ == "__main__":
    triton.runtime.driver.set_active(Absent())
    launch, JITFunction.run = JITFunction.run, tell
    few, tiles.dealt = tiles.dealt, lambda tile, *_: tile  # blocks as for many rows, though here are few
    if "overlapping" in sys.argv:
        tiles.forward = lambda *_: tiles.Tile(128, 64, 32, 4, 3)  # as it was for 192 to 32 channels
        products(torch.bfloat16, 192, 32)
    elif "spilling" in sys.argv:
        tiles.expand_backward = lambda *_: tiles.Tile(32, 32, 128, 2, 1)  # as it was in float32
        products(torch.float32, 32, 192)
    else:
        for inputs, outputs in ((24, 144), (192, 32), (960, 160)):
            products(torch.bfloat16, inputs, outputs)
        for inputs, outputs in ((16, 96), (24, 144), (32, 192), (192, 32), (576, 96), (320, 1280)):
            products(torch.float32, inputs, outputs)
        for inputs, outputs in ((32, 192), (576, 96)):
            products(torch.float32, inputs, outputs, tf32=True)
        norm(torch.bfloat16, 144)
        tiles.dealt = few
        products(torch.bfloat16, 960, 160)
