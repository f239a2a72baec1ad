"""AutoAugment: the published table, the magnitudes of both variants, and how often what happens."""

from __future__ import annotations

import collections
from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image

from augment.pil_reference import OPERATIONS as PIL
from augment.pil_reference import crop_flip, spline_warp, to_array, to_image
from fedvls.augment import draws, get_augmentation
from fedvls.augment.geometry import GEOMETRIC
from fedvls.augment.operations import CODES, OPERATIONS, UNCHANGED
from fedvls.augment.policy import CIFAR10, Variant, decode, magnitude

# The policy found on CIFAR-10 as Cubuk et al. (2019) print it in the appendix: operation, probability, magnitude.
PUBLISHED = """
Invert 0.1 7        Contrast 0.2 6
Rotate 0.7 2        TranslateX 0.3 9
Sharpness 0.8 1     Sharpness 0.9 3
ShearY 0.5 8        TranslateY 0.7 9
AutoContrast 0.5 8  Equalize 0.9 2
ShearY 0.2 7        Posterize 0.3 7
Color 0.4 3         Brightness 0.6 7
Sharpness 0.3 9     Brightness 0.7 9
Equalize 0.6 5      Equalize 0.5 1
Contrast 0.6 7      Sharpness 0.6 5
Color 0.7 7         TranslateX 0.5 8
Equalize 0.3 7      AutoContrast 0.4 8
TranslateY 0.4 3    Sharpness 0.2 6
Brightness 0.9 6    Color 0.2 8
Solarize 0.5 2      Invert 0.0 3
Equalize 0.2 0      AutoContrast 0.6 0
Equalize 0.2 8      Equalize 0.6 4
Color 0.9 9         Equalize 0.6 6
AutoContrast 0.8 4  Solarize 0.2 8
Brightness 0.1 3    Color 0.7 0
Solarize 0.4 5      AutoContrast 0.9 3
TranslateY 0.9 9    TranslateY 0.7 9
AutoContrast 0.9 2  Solarize 0.8 3
Equalize 0.8 8      Invert 0.1 3
TranslateY 0.7 9    AutoContrast 0.9 1
"""
WITHOUT_MAGNITUDE = ("AutoContrast", "Equalize", "Invert")
LINES = [line.split() for line in PUBLISHED.split("\n") if line]
SUB_POLICIES = [((a, float(p), int(m)), (b, float(q), int(n))) for a, p, m, b, q, n in LINES]


def numbers(samples: int, seed: int = 0) -> torch.Tensor:
    return draws(get_augmentation("autoaugment"), samples, seed=seed, round=0, client=0, epoch=0)


def test_the_policy_is_the_published_one() -> None:
    assert len(SUB_POLICIES) == 25
    for ours, published in zip(CIFAR10, SUB_POLICIES, strict=True):
        for (operation, probability, m), (name, p, level) in zip(ours, published, strict=True):
            assert (operation, probability) == (name, p)
            assert m == (0 if name in WITHOUT_MAGNITUDE else level)


@pytest.mark.parametrize(
    ("operation", "m", "start", "stretch"),
    [  # torchvision's space with ten bins: linspace(0, top, 10)[m] with a random sign, enhancements as 1 +- that
        ("ShearX", 9, 0, 0.3),
        ("ShearY", 8, 0, 0.8 / 3),
        ("TranslateX", 9, 0, 150 / 331 * 48),
        ("TranslateY", 3, 0, 50 / 331 * 32),
        ("Rotate", 2, 0, 60 / 9),
        ("Brightness", 7, 1, 0.7),
        ("Color", 0, 1, 0),
        ("Contrast", 6, 1, 0.6),
        ("Sharpness", 9, 1, 0.9),
        ("Posterize", 0, 8, 0),
        ("Posterize", 7, 5, 0),
        ("Posterize", 9, 4, 0),
        ("Solarize", 3, 170, 0),
        ("Solarize", 8, 255 / 9, 0),
        ("Equalize", 4, 0, 0),
    ],
)
def test_torchvision_magnitudes_are_steps_from_nothing_to_the_most(
    operation: str, m: int, start: float, stretch: float
) -> None:
    assert magnitude("torchvision", operation, m, 32, 48) == pytest.approx((start, stretch), abs=1e-6)


@pytest.mark.parametrize(
    ("operation", "ends"),
    [
        ("ShearX", (-0.3, 0.3)),
        ("TranslateX", (-150 / 331 * 48, 150 / 331 * 48)),
        ("TranslateY", (-150 / 331 * 32, 150 / 331 * 32)),
        ("Rotate", (-30, 30)),
        ("Brightness", (0.1, 1.9)),
        ("Color", (0.1, 1.9)),
        ("Contrast", (0.1, 1.9)),
        ("Sharpness", (0.1, 1.9)),
        ("Solarize", (0, 256)),
        ("Posterize", (4, 8)),
    ],
)
def test_binned_magnitudes_lie_between_neighbours_of_eleven_points(operation: str, ends: tuple[float, float]) -> None:
    points = np.linspace(*ends, 11)
    for m in range(10):
        start, stretch = magnitude("binned", operation, m, 32, 48)
        assert (start, start + stretch) == pytest.approx((points[m], points[m + 1]), abs=1e-12)


def test_sub_policies_are_equally_likely_and_operations_have_their_probabilities() -> None:
    # Column 0 of the numbers is the choice; within 5 standard deviations of what the table says.
    samples = 200_000
    u = numbers(samples)
    chosen = (u[:, 0].double() * 25).floor().long()
    steps = decode("torchvision", u, 32, 32)
    assert abs(torch.bincount(chosen, minlength=25) - samples / 25).max() < 5 * (samples / 25) ** 0.5
    for k, pair in enumerate(SUB_POLICIES):
        here = chosen == k
        for (code, _), (name, probability, _) in zip(steps, pair, strict=True):
            assert set(code[here].tolist()) <= {CODES[name], UNCHANGED}
            applied = (code[here] != UNCHANGED).double().mean()
            deviation = (probability * (1 - probability) / here.sum()) ** 0.5
            assert abs(applied - probability) <= 5 * deviation


def test_the_two_operations_of_a_sub_policy_are_applied_independently() -> None:
    u = numbers(400_000)
    (first, _), (second, _) = decode("torchvision", u, 32, 32)
    here = (u[:, 0].double() * 25).floor() == 4  # AutoContrast 0.5, Equalize 0.9
    both = ((first != UNCHANGED) & (second != UNCHANGED))[here].double().mean()
    assert both == pytest.approx(0.45, abs=5 * (0.45 * 0.55 / int(here.sum())) ** 0.5)


def test_torchvision_signs_are_random() -> None:
    for code, size in decode("torchvision", numbers(100_000), 32, 32):
        for name in GEOMETRIC:
            own = size[code == CODES[name]]
            positive = int((own > 0).sum())
            assert abs(positive - len(own) / 2) <= 5 * (len(own) / 4) ** 0.5
            assert len(own) == 0 or len(own) > 500


def test_binned_signs_are_fixed_by_the_magnitude() -> None:
    signs = collections.defaultdict(set)
    for code, size in decode("binned", numbers(100_000), 32, 32):
        for name in GEOMETRIC:
            signs[name] |= set(size[code == CODES[name]].sign().tolist())
    # TranslateX 8 and 9, ShearY 7 and 8 are on the positive side, Rotate 2 on the negative, TranslateY 3 and 9 on both.
    assert signs == {"ShearX": set(), "ShearY": {1}, "TranslateX": {1}, "TranslateY": {-1, 1}, "Rotate": {-1}}


def test_binned_magnitudes_fill_their_bins() -> None:
    (code, size), _ = decode("binned", numbers(100_000), 32, 32)
    rotations = size[code == CODES["Rotate"]]
    assert -18 <= rotations.min() < -17.9
    assert -12.1 < rotations.max() < -12
    assert rotations.mean() == pytest.approx(-15, abs=0.15)


@pytest.mark.parametrize("variant", ["torchvision", "binned"])
def test_the_whole_recipe_gives_the_pixels_of_a_pipeline_that_takes_one_image_at_a_time(variant: Variant) -> None:
    samples = 400
    recipe = get_augmentation("cifar", variant=variant)
    x = np.random.RandomState(1).randint(0, 256, (samples, 3, 32, 32)).astype(np.uint8)
    x[::2] = x[::2] // 3 + 40  # half of them dull, so that contrast can grow
    u = draws(recipe, samples, seed=5, round=1, client=2, epoch=0)
    got = recipe(torch.from_numpy(x), u).numpy()
    for b, (one, row) in enumerate(zip(x, u.double().tolist(), strict=True)):
        image = crop_flip(to_image(one), int(row[0] * 9), int(row[1] * 9), row[2] < 0.5)
        for slot, (name, probability, m) in enumerate(SUB_POLICIES[int(row[3] * 25)]):
            if row[4 + slot] < probability:
                image = _operation(variant, name, m, row[6 + slot])(image)
        np.testing.assert_array_equal(got[b], to_array(image), err_msg=f"image {b}")


def _operation(variant: Variant, name: str, m: int, number: float) -> Callable[[Image.Image], Image.Image]:
    if variant == "torchvision":
        top = {"Rotate": 30, "ShearX": 0.3, "ShearY": 0.3, "TranslateX": 150 / 331 * 32, "TranslateY": 150 / 331 * 32}
        sign = -1 if number < 0.5 else 1
        # In float32, as torchvision makes them: the last bit of a factor shows in the pixels.
        size = sign * float(torch.linspace(0, top.get(name, 0.9), 10)[m]) + (name not in top)
        size = {"Posterize": 8 - round(m / 2.25), "Solarize": float(torch.linspace(255, 0, 10)[m])}.get(name, size)
        return lambda image: PIL[name](image, size)
    ends = {
        "Rotate": (-30, 30),
        "ShearY": (-0.3, 0.3),
        "TranslateX": (-32 * 150 / 331, 32 * 150 / 331),
        "TranslateY": (-32 * 150 / 331, 32 * 150 / 331),
        "Posterize": (4, 8),
        "Solarize": (0, 256),
    }
    points = np.linspace(*ends.get(name, (0.1, 1.9)), 11)
    size = points[m] + (points[m + 1] - points[m]) * number
    return lambda image: spline_warp(name, image, size) if name in GEOMETRIC else PIL[name](image, float(size))


def test_both_variants_use_only_operations_that_exist() -> None:
    assert {name for pair in CIFAR10 for name, _, _ in pair} <= set(OPERATIONS)
    assert set(OPERATIONS) == set(PIL)
