"""Every operation against PIL or scipy, one image at a time; both ways of running a batch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from augment.made_images import images, magnitudes
from augment.pil_reference import OPERATIONS as PIL
from augment.pil_reference import spline_warp, to_array, to_image
from fedvls.augment.geometry import GEOMETRIC, nearest
from fedvls.augment.operations import CODES, OPERATIONS, UNCHANGED, all_at_once, operate, sorted_by_operation
from fedvls.augment.spline import cubic_spline
from fedvls.errors import UsageError

WAYS = [pytest.param(sorted_by_operation, id="sorted"), pytest.param(all_at_once, id="at-once")]
Way = Callable[..., Tensor]


def one_operation(way: Way, name: str, x: np.ndarray, m: np.ndarray, warp: Way = nearest) -> np.ndarray:
    code = torch.full((len(x),), CODES[name])
    return way(torch.from_numpy(x), [(code, torch.from_numpy(m))], warp).numpy()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", PIL)
def test_each_operation_gives_the_pixels_that_pil_gives(name: str, channels: int, way: Way) -> None:
    for height, width in ((32, 32), (19, 26), (64, 64)):
        x = images(48, channels, height, width)
        m = magnitudes(name, len(x))
        expected = np.stack([to_array(PIL[name](to_image(one), float(v))) for one, v in zip(x, m, strict=True)])
        np.testing.assert_array_equal(one_operation(way, name, x, m), expected)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", GEOMETRIC)
def test_each_spline_warp_gives_the_pixels_that_scipy_gives(name: str, channels: int, way: Way) -> None:
    # Even sides, as all data sets here have. With an odd side the centre is a pixel, and for sources on the very edge
    # scipy's own rounding error decides about inside or outside: see the next test.
    for height, width in ((32, 32), (18, 26)):
        x = images(24, channels, height, width)
        m = magnitudes(name, len(x))
        expected = np.stack([to_array(spline_warp(name, to_image(one), v)) for one, v in zip(x, m, strict=True)])
        np.testing.assert_array_equal(one_operation(way, name, x, m, cubic_spline), expected)


@pytest.mark.parametrize("name", GEOMETRIC)
def test_spline_warps_of_odd_sides_differ_from_scipy_in_less_than_one_pixel_of_a_thousand(name: str) -> None:
    x = images(48, 3, 20, 27)
    m = magnitudes(name, len(x))
    expected = np.stack([to_array(spline_warp(name, to_image(one), v)) for one, v in zip(x, m, strict=True)])
    assert np.mean(one_operation(sorted_by_operation, name, x, m, cubic_spline) != expected) < 1e-3


@pytest.mark.parametrize("way", WAYS)
def test_a_mixed_batch_gives_each_image_its_own_operations(way: Way) -> None:
    x = images(120, 3)
    names = [[OPERATIONS[(b * 7 + slot * 5) % len(OPERATIONS)] for b in range(120)] for slot in (0, 1)]
    sizes = [[float(magnitudes(name, 3)[2]) for name in row] for row in names]
    steps = [
        (torch.tensor([CODES[name] for name in row]), torch.tensor(size, dtype=torch.float64))
        for row, size in zip(names, sizes, strict=True)
    ]
    expected = []
    for b, one in enumerate(x):
        image = to_image(one)
        for slot in (0, 1):
            image = PIL[names[slot][b]](image, sizes[slot][b])
        expected.append(to_array(image))
    np.testing.assert_array_equal(way(torch.from_numpy(x), steps, nearest).numpy(), np.stack(expected))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("warp", [nearest, cubic_spline])
def test_images_without_an_operation_stay_as_they_are(way: Way, warp: Way) -> None:
    x = torch.from_numpy(images(16, 3))
    nothing = (torch.full((16,), UNCHANGED), torch.full((16,), 0.7, dtype=torch.float64))
    assert torch.equal(way(x, [nothing, nothing], warp), x)


@pytest.mark.parametrize("name", PIL)
def test_colour_on_a_grey_image_changes_nothing_and_only_colour_does_so(name: str) -> None:
    x = images(16, 1)
    changed = not np.array_equal(one_operation(sorted_by_operation, name, x, magnitudes(name, 16)), x)
    assert changed == (name != "Color")


def test_the_given_images_are_not_written_to() -> None:
    x = torch.from_numpy(images(len(OPERATIONS), 3))
    before = x.clone()
    steps = [(torch.arange(len(OPERATIONS)), torch.full((len(OPERATIONS),), 0.5, dtype=torch.float64).add_(1))]
    for way in (sorted_by_operation, all_at_once):
        way(x, steps, nearest)
        assert torch.equal(x, before)


@pytest.mark.parametrize("warp", [nearest, cubic_spline])
def test_the_way_of_accelerators_depends_on_no_value_in_a_tensor(warp: Way) -> None:
    # On the meta device tensors have shapes but no values: anything that asks for one fails.
    x = torch.empty(6, 3, 32, 32, dtype=torch.uint8, device="meta")
    step = (torch.empty(6, dtype=torch.int64, device="meta"), torch.empty(6, dtype=torch.float64, device="meta"))
    assert operate(x, [step, step], warp).shape == x.shape


def test_images_that_are_neither_grey_nor_in_colour_are_refused() -> None:
    with pytest.raises(UsageError, match="2 channels"):
        operate(torch.zeros(1, 2, 8, 8, dtype=torch.uint8), [])


def test_splines_of_images_that_are_too_small_are_refused() -> None:
    with pytest.raises(UsageError, match="2 x 8 pixels"):
        cubic_spline(torch.zeros(1, 3, 2, 8, dtype=torch.uint8), torch.zeros(1, 5, dtype=torch.float64))
