"""The fourteen operations of AutoAugment on a batch in which every image has its own operation and magnitude.

Magnitudes are in the operation's own unit: shear as a slope, translation in pixels, rotation in degrees, Brightness,
Color, Contrast and Sharpness as a factor (1 changes nothing), Posterize in bits kept, Solarize as a threshold;
AutoContrast, Equalize and Invert have none.

Three ways lead to the same images. On a CPU the batch is sorted by operation and each operation sees only its own
images. On an accelerator the host would have to wait for the codes. There a kernel has a program for each image; where
it cannot be had, and for warps by splines, all images pass through one warp, one table and one blend, of which at most
one changes an image.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .. import kernels
from ..errors import UsageError
from .colour import DEGENERATES, black, blend
from .geometry import GEOMETRIC, nearest, source_numbers
from .tables import TABLES, look_up, unchanged

Warp = Callable[[Tensor, Tensor], Tensor]

# In the order in which a sorted batch is worked through: warps, then tables, then blends, then what stays as it is.
OPERATIONS = (*GEOMETRIC, *TABLES, *DEGENERATES)
CODES = {name: code for code, name in enumerate(OPERATIONS)}
UNCHANGED = len(OPERATIONS)


def operate(x: Tensor, steps: Sequence[tuple[Tensor, Tensor]], warp: Warp = nearest) -> Tensor:
    """One step after the other: operation `code[b]` at `magnitude[b]` on image b, for each `(code, magnitude)`.

    A code is an index of `OPERATIONS`, or `UNCHANGED`; magnitudes are float64.
    """
    if x.shape[1] not in (1, 3):
        raise UsageError(
            f"images have {x.shape[1]} channels: AutoAugment's operations are for grey (1) and colour (3) images"
        )
    x = x.contiguous()
    if x.device.type == "cpu":
        return sorted_by_operation(x, steps, warp)
    done = image_by_image(x, steps) if warp is nearest else None
    return all_at_once(x, steps, warp) if done is None else done


def sorted_by_operation(x: Tensor, steps: Sequence[tuple[Tensor, Tensor]], warp: Warp) -> Tensor:
    """Each operation on its own images only; the host reads how many those are."""
    here = torch.arange(len(x))  # which image is at each place
    for code, magnitude in steps:
        code, order = torch.sort(code.index_select(0, here), stable=True)
        x, here = x.index_select(0, order), here.index_select(0, order)
        magnitude = magnitude.index_select(0, here)
        starts = [0, *itertools.accumulate(torch.bincount(code, minlength=UNCHANGED + 1).tolist())]
        own = {name: slice(*starts[first : first + 2]) for first, name in enumerate(OPERATIONS)}

        mine = x[: starts[len(GEOMETRIC)]]
        if len(mine):
            mine.copy_(warp(mine, _geometric(code[: len(mine)], magnitude[: len(mine)])))
        for name, table in TABLES.items():
            if len(mine := x[own[name]]):
                mine.copy_(look_up(mine, table(mine, magnitude[own[name]])))
        for name, degenerate in DEGENERATES.items():
            if len(mine := x[own[name]]):
                mine.copy_(blend(degenerate(mine), mine, magnitude[own[name]]))
    return x.index_select(0, torch.argsort(here))


def image_by_image(x: Tensor, steps: Sequence[tuple[Tensor, Tensor]]) -> Tensor | None:
    """Every image through its own operation, warps by the nearest pixel; None where there is no kernel for it."""
    sources = (source_numbers(_geometric(*step), *x.shape[2:]) for step in steps)
    return kernels.operated(x, [(*step, source) for step, source in zip(steps, sources, strict=True)], CODES)


def all_at_once(x: Tensor, steps: Sequence[tuple[Tensor, Tensor]], warp: Warp) -> Tensor:
    """Every image through one warp, one table and one blend; what is not the image's own changes nothing."""
    for code, magnitude in steps:
        x = warp(x, _geometric(code, magnitude))

        table = unchanged(x)
        for name, make in TABLES.items():
            own = code == CODES[name]
            table = torch.where(own.view(-1, 1, 1), make(x, torch.where(own, magnitude, 1)), table)
        x = look_up(x, table)

        base = black(x).float()
        for name, degenerate in DEGENERATES.items():
            base = torch.where((code == CODES[name]).view(-1, 1, 1, 1), degenerate(x).float(), base)
        blended = (code >= CODES["Brightness"]) & (code < UNCHANGED)
        x = blend(base, x, torch.where(blended, magnitude, 1))
    return x


def _geometric(code: Tensor, magnitude: Tensor) -> Tensor:
    """The magnitude of each warp, in the order of `GEOMETRIC`: the given one if it is the image's own, else 0."""
    codes = torch.arange(len(GEOMETRIC), device=code.device)
    return torch.where(code[:, None] == codes, magnitude[:, None], 0)
