"""Block sizes of the kernels, by shape: a fixed choice, because a captured graph cannot try several.

Measured on an H200 with MobileNetV2 on 32x32 images, 10 clients, batch 64; any other shape works, if not as fast.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Numbers = Literal["short", "tf32", "float32"]
"""What a convolution multiplies: numbers of 2 bytes; of 4, rounded to TF32; of 4 as they are, each product the sum of
three of TF32, which takes more registers for the same block."""


def numbers(size: int, tf32: bool) -> Numbers:
    """Of so many bytes. tf32: whether those of 4 may be rounded."""
    return "short" if size <= 2 else "tf32" if tf32 else "float32"


def precision(numbers: Numbers) -> str:
    """How they enter Triton's matrix product."""
    return "tf32x3" if numbers == "float32" else "tf32"


class Tile(NamedTuple):
    """Rows, input channels and output channels of a block, the warps that work on it, and how many steps of its loop
    are under way at once."""

    rows: int
    inputs: int
    outputs: int
    warps: int
    stages: int = 2
    programs: int = 1056
    """How many programs fill the device, for kernels that deal out the rows: a multiple of an H200's 132
    multiprocessors."""

    def launch(self) -> dict[str, int]:
        """The keyword arguments of a kernel's launch."""
        sizes = {"BM": self.rows, "BI": self.inputs, "BO": self.outputs}
        return sizes | {"num_warps": self.warps, "num_stages": self.stages}


def power(n: int, least: int = 16, most: int = 1 << 30) -> int:
    """The power of two that covers n, within bounds."""
    return max(least, min(1 << max(n - 1, 0).bit_length(), most))


def covering(parts: int) -> int:
    """One of three sizes, so that few kernels need compiling: all parts in one block, up to 512."""
    return next((size for size in (32, 128) if parts <= size), 512)


def snug(n: int, least: int = 16, most: int = 64) -> int:
    """The largest power of two whose multiples cover n channels with at most an eighth beyond n, else the least."""
    size = most
    while size > least and -(-n // size) * size - n > n // 8:
        size //= 2
    return size


def pieces(n: int) -> tuple[int, int]:
    """Two powers of two, or one and 0, that cover n channels with little to spare."""
    whole = power(n)
    rest = power(n - whole // 2)
    return (whole // 2, rest) if whole > n and whole // 2 + rest < whole else (whole, 0)


WIDEN = 64
"""Most inputs of a convolution whose weights stay in place while rows pass."""

PROJECT = 96
"""Most outputs of a convolution behind a BatchNorm whose backward pass is one kernel."""

EXPAND = (32, 192)
"""Most inputs and outputs of another whose backward pass is one kernel."""


# Each function below: inputs and outputs of the convolution, and its numbers.
#
# Where copies run ahead of a loop (stages above 1) its products must be those of single warps: fewer than four warps,
# or fewer than 64 rows in the result. Otherwise Triton takes Hopper's asynchronous products of warp groups, and up to
# 3.6 it lets their operands be overwritten while they are still being read (triton-lang/triton issue 9433) and omits
# the fence behind copies (pull request 9610). On a GPU at the disposal of one process it went well; with others beside
# it, a few launches in a million came out wrong. Products of single warps are no slower here: memory is the limit.


def dealt(tile: Tile, rows: int, programs: int) -> Tile:
    """The tile, with fewer rows where it would make fewer programs of so many rows than an H200 has multiprocessors;
    `programs` share every row."""
    few = programs * -(-rows // tile.rows) < 132
    return tile._replace(rows=32) if few and tile.rows > 32 else tile


def forward(inputs: int, outputs: int, numbers: Numbers) -> Tile:
    step = power(inputs, most=32 if numbers != "short" or inputs % 64 == 32 else 64)
    if outputs < 64 or numbers != "short":
        return Tile(64, step, power(outputs, most=32) if outputs < 64 else snug(outputs), 2, 3)
    return Tile(64, step, 128 if outputs >= 320 or power(outputs) == 128 else 64, 2, 3)


def widen(inputs: int, outputs: int, numbers: Numbers) -> Tile:
    stages = 4 if numbers == "short" and inputs <= 32 else 3
    if numbers == "float32":
        return Tile(32, power(inputs), power(outputs, most=32), 2, 3 if inputs <= 32 else 2, 528)
    if outputs > 128:
        return Tile(32, power(inputs), 64, 4, stages, 528)
    return Tile(32, power(inputs), power(outputs, most=32), 4, stages)


def input_gradient(inputs: int, outputs: int, numbers: Numbers) -> Tile:
    if numbers != "short":
        return Tile(64, snug(inputs), 32, 2, 2)
    if outputs <= 192:
        return Tile(64, power(inputs, most=64), 32, 2, 3)
    return Tile(64, power(inputs, most=128), 32 if inputs > 160 else 64, 2, 3)


def weight_gradient(inputs: int, outputs: int, numbers: Numbers) -> Tile:
    if numbers == "float32" and inputs > 64:
        return Tile(32, 64, 32, 4, 2, 1584) if inputs > 128 else Tile(32, 32, 64, 2, 2, 1584)
    if numbers != "short":
        return Tile(32, power(inputs, most=64), 32, 2, 2, 792)
    if inputs <= 128:
        return Tile(32, power(inputs), 32, 2, 3, 792)
    return Tile(64, 64, 64, 4, 1, 396) if inputs <= 320 else Tile(64, 128, 64, 8, 1, 396)


def project_backward(inputs: int, outputs: int, numbers: Numbers) -> Tile:
    first, rest = pieces(outputs)
    if numbers == "float32" and first + rest > 64:
        return Tile(16, 16, first, 1, 3, 1056)
    return Tile(32, power(inputs, most=32 if outputs == 64 else 64), first, 2 if first >= 64 else 4, 3, 528)


def expand_backward(inputs: int, outputs: int, numbers: Numbers) -> Tile:
    first, rest = pieces(outputs)
    if numbers == "float32":
        # Both gradients and three products for each are alive at once: larger blocks do not fit the registers, and
        # were up to 15 times as slow.
        if first <= 64:
            return Tile(32, power(inputs), first, 2, 2, 528)
        return Tile(16, power(inputs), first, 2, 2, 528) if rest < 64 else Tile(16, power(inputs), first, 4, 1, 528)
    return Tile(64 if first <= 64 else 32, power(inputs), first, 2, 2 if numbers == "short" else 1, 528)


def columns(channels: int) -> Tile:
    """Sums down the columns of activations; programs of many slots run side by side, so no launch need fill a GPU."""
    width = snug(channels)
    return Tile(2048 // width, 16, width, 4, 1, 264)


class Band(NamedTuple):
    """Pairs of columns and channels that a program of a depthwise convolution walks down at a time, its warps, and how
    many such bands it takes."""

    pairs: int
    channels: int
    warps: int
    bands: int = 1

    def launch(self) -> dict[str, int]:
        """The keyword arguments of a kernel's launch."""
        return {"BN": self.pairs, "BC": self.channels, "BANDS": self.bands, "num_warps": self.warps}

    def parts(self, pairs: int) -> int:
        """Programs that share this many pairs of columns."""
        return -(-pairs // (self.pairs * self.bands))


def depthwise_forward(height: int, channels: int, stride: int) -> Band:
    if height <= 16 and channels % 64 == 0:
        return Band(4, 64, 4, max(1, 16 // height))
    return Band(8, 16, 2) if stride == 1 else Band(16, 16, 4)


def depthwise_backward(height: int) -> Band:
    return Band(4, 16, 1, 2 if height <= 8 else 1)


def together(parts: int) -> int:
    """How many parts are added at once; one of three numbers, so that few kernels need compiling."""
    return 2 if parts <= 2 else 4 if parts <= 16 else 16


def splits(programs: int, rows: int, tile: Tile) -> tuple[int, int]:
    """How many parts the rows are dealt into so that about as many programs run as the tile wants, and the rows of
    each, where `programs` share every row."""
    blocks = -(-rows // tile.rows)
    parts = max(1, min(blocks, tile.programs // max(programs, 1)))
    share = -(-blocks // parts) * tile.rows
    return -(-rows // share), share
