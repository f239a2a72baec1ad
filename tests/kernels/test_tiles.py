"""The rules that every block size keeps: copies that run ahead of a loop and products of warp groups do not meet, and
its numbers fit the registers."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import run_python

from fedvls.kernels import tiles
from fedvls.kernels.tiles import Numbers, Tile

CHANNELS = st.integers(1, 2048)
NUMBERS = st.sampled_from(get_args(Numbers))
WARP_GROUP = 4  # warps
ROWS_OF_A_GROUP = 64  # rows of the smallest result that a warp group computes

# By the function that chooses the block: the sides that are rows of a product's result.
RESULTS = {
    "forward": ("rows",),
    "widen": ("rows",),
    "input_gradient": ("rows",),
    "weight_gradient": ("outputs",),
    "project_backward": ("rows", "outputs"),
    "expand_backward": ("rows", "outputs"),
}


def may_overlap(tile: Tile, sides: tuple[str, ...]) -> bool:
    grouped = tile.warps >= WARP_GROUP and any(getattr(tile, side) >= ROWS_OF_A_GROUP for side in sides)
    return grouped and tile.stages > 1


@pytest.mark.parametrize("name", RESULTS)
@given(inputs=CHANNELS, outputs=CHANNELS, numbers=NUMBERS)
@example(inputs=384, outputs=96, numbers="short")
@example(inputs=192, outputs=32, numbers="short")
def test_no_product_of_a_warp_group_reads_what_a_copy_writes(name, inputs, outputs, numbers):
    assert not may_overlap(getattr(tiles, name)(inputs, outputs, numbers), RESULTS[name])


def test_the_rule_sees_the_block_that_failed():
    """The forward pass of 192 to 32 channels as it was: two wrong launches in a million beside other processes."""
    assert may_overlap(Tile(128, 64, 32, 4, 3), RESULTS["forward"])


@pytest.mark.parametrize("name", RESULTS)
@given(inputs=CHANNELS, outputs=CHANNELS, numbers=NUMBERS)
def test_sides_are_powers_of_two_that_the_products_take(name, inputs, outputs, numbers):
    tile = getattr(tiles, name)(inputs, outputs, numbers)
    assert all(side >= 16 and side & (side - 1) == 0 for side in (tile.rows, tile.inputs, tile.outputs))


@cache
def compiled(*choice: str) -> set[tuple[str, ...]]:
    """Kernels compiled for a Hopper GPU: name, `copies`, `groups`, `spills`."""
    done = run_python(Path(__file__).parent / "compiled.py", *choice)
    assert done.returncode == 0, done.stderr
    return {tuple(line.split()) for line in done.stdout.splitlines()}


def test_the_compiler_makes_no_code_that_has_both():
    found = compiled()
    products = {"forward", "widen", "input_gradient", "weight_gradient", "project", "expand"}
    names = products | {"moments", "column_statistics", "column_sums", "normalise", "joined", "output_gradients"}
    assert names <= {name for name, *_ in found}
    assert not any({"copies", "groups"} <= set(parts) for _, *parts in found)


def test_code_that_has_both_is_seen():
    assert ("forward", "copies", "groups") in compiled("overlapping")


def test_a_kernels_numbers_stay_in_the_registers():
    assert not {name for name, *parts in compiled() if "spills" in parts}


def test_numbers_that_do_not_stay_are_seen():
    assert {name for name, *parts in compiled("spilling") if "spills" in parts} == {"expand"}
