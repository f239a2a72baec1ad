"""Crop and flip, keyed draws, composition, and what every registered augmentation promises."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

from augment.pil_reference import crop_flip, to_array, to_image
from fedvls import rng
from fedvls.augment import AUGMENTATIONS, Augmentation, augmentation, draws, get_augmentation
from fedvls.errors import UsageError

NAMES = [entry.name for entry in AUGMENTATIONS]
BINNED = get_augmentation("cifar", variant="binned")
ALL = [*map(get_augmentation, NAMES), BINNED]
every = pytest.mark.parametrize("one", ALL, ids=[*NAMES, "cifar-binned"])


def images(samples: int, channels: int = 3, height: int = 32, width: int = 32) -> torch.Tensor:
    random = np.random.RandomState(11)
    return torch.from_numpy(random.randint(0, 256, (samples, channels, height, width)).astype(np.uint8))


def numbers(one: Augmentation, samples: int, **at: int) -> torch.Tensor:
    return draws(one, samples, **{"seed": 0, "round": 0, "client": 0, "epoch": 0, **at})


def test_the_registered_names_are_these() -> None:
    assert NAMES == ["none", "crop", "flip", "crop-flip", "autoaugment", "cifar", "tiny"]


@every
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(32, 32), (64, 64), (21, 38)])
def test_shape_and_type_are_kept(one: Augmentation, channels: int, size: tuple[int, int]) -> None:
    x = images(9, channels, *size)
    y = one(x, numbers(one, 9))
    assert y.shape == x.shape
    assert y.dtype == torch.uint8


@every
def test_permuting_the_batch_permutes_the_result(one: Augmentation) -> None:
    x, u = images(200), numbers(one, 200)
    order = torch.from_numpy(np.random.RandomState(2).permutation(200))
    assert torch.equal(one(x[order], u[order]), one(x, u)[order])


@every
def test_an_image_alone_gives_what_it_gives_in_a_batch(one: Augmentation) -> None:
    x, u = images(60), numbers(one, 60)
    together = one(x, u)
    for b in range(60):
        assert torch.equal(one(x[b : b + 1], u[b : b + 1]), together[b : b + 1])


@every
def test_an_empty_batch_stays_empty(one: Augmentation) -> None:
    assert one(images(0), numbers(one, 0)).shape == (0, 3, 32, 32)


@every
def test_blocks_of_a_large_batch_do_not_show(one: Augmentation, monkeypatch: pytest.MonkeyPatch) -> None:
    x, u = images(100), numbers(one, 100)
    whole = one(x, u)
    monkeypatch.setattr(augmentation, "BLOCK", 33)
    assert torch.equal(one(x, u), whole)


@every
def test_the_layout_in_memory_does_not_matter(one: Augmentation) -> None:
    x, u = images(40), numbers(one, 40)
    assert torch.equal(one(x.to(memory_format=torch.channels_last), u), one(x, u))


@every
def test_float64_numbers_decide_as_the_same_float32_numbers_do(one: Augmentation) -> None:
    x, u = images(100), numbers(one, 100)
    assert torch.equal(one(x, u.double()), one(x, u))


@every
def test_the_given_images_are_not_written_to(one: Augmentation) -> None:
    x = images(50)
    before = x.clone()
    one(x, numbers(one, 50))
    assert torch.equal(x, before)


@every
def test_no_value_in_a_tensor_is_asked_for_on_an_accelerator(one: Augmentation) -> None:
    # Tensors on the meta device have no values: anything that asks for one fails.
    x = images(5).to("meta")
    assert one(x, numbers(one, 5).to("meta")).shape == x.shape


@every
def test_a_copy_through_pickle_does_the_same(one: Augmentation) -> None:
    x, u = images(30), numbers(one, 30)
    assert torch.equal(pickle.loads(pickle.dumps(one))(x, u), one(x, u))


@pytest.mark.parametrize("one", ALL[: len(NAMES)], ids=NAMES)
def test_name_and_values_rebuild_it(one: Augmentation) -> None:
    again = get_augmentation(**one.spec)
    x, u = images(30), numbers(one, 30)
    assert again.spec == one.spec
    assert torch.equal(again(x, u), one(x, u))


def test_spec_holds_all_values() -> None:
    assert BINNED.spec == {"name": "cifar", "pad": 4, "flip": 0.5, "variant": "binned"}
    assert get_augmentation("none").spec == {"name": "none"}


# --- draws


def test_the_same_key_gives_the_same_pixels() -> None:
    x, recipe = images(100), get_augmentation("cifar")
    at = {"seed": 3, "round": 7, "client": 2, "epoch": 1}
    assert torch.equal(recipe(x, draws(recipe, 100, **at)), recipe(x, draws(recipe, 100, **at)))


@pytest.mark.parametrize("other", ["seed", "round", "client", "epoch"])
def test_another_seed_round_client_or_epoch_gives_other_pixels(other: str) -> None:
    x, recipe = images(100), get_augmentation("cifar")
    same = (recipe(x, numbers(recipe, 100)) == recipe(x, numbers(recipe, 100, **{other: 1}))).flatten(1).all(1)
    assert same.sum() < 10


def test_draws_are_the_keyed_numbers_cut_to_float32() -> None:
    recipe = get_augmentation("cifar")
    u = draws(recipe, 1000, seed=1, round=2, client=3, epoch=4)
    exact = rng.uniform(rng.key(1, "augment", 2, 3, 4), (1000, 8))
    assert (u.dtype, u.shape) == (torch.float32, (1000, 8))
    assert np.all(u.numpy() <= exact)
    assert np.all(exact - u.numpy() < 2.0**-24)


def test_a_number_just_below_one_stays_below_one(monkeypatch: pytest.MonkeyPatch) -> None:
    largest = 1 - 2.0**-53
    assert np.float32(largest) == 1  # what rounding would do
    monkeypatch.setattr(rng, "uniform", lambda bits, shape: np.full(shape, largest))
    recipe = get_augmentation("cifar")
    u = numbers(recipe, 4)
    assert u.max() < 1
    assert recipe(images(4), u).shape == (4, 3, 32, 32)


def test_a_longer_draw_starts_with_the_shorter_one() -> None:
    recipe = get_augmentation("cifar")
    assert torch.equal(numbers(recipe, 500)[:100], numbers(recipe, 100))


# --- crop and flip


@pytest.mark.parametrize("channels", [1, 3])
def test_crop_flip_gives_the_pixels_that_pil_gives(channels: int) -> None:
    one = get_augmentation("crop-flip", pad=3)
    x, u = images(150, channels, 20, 26), numbers(one, 150)
    got = one(x, u).numpy()
    for b, (top, left, mirrored) in enumerate(u.double().tolist()):
        expected = crop_flip(to_image(x[b].numpy()), int(top * 7), int(left * 7), mirrored < 0.5, pad=3)
        np.testing.assert_array_equal(got[b], to_array(expected))


def test_all_corners_of_a_crop_are_equally_likely() -> None:
    one = get_augmentation("crop", pad=4)
    samples = 40_000
    x = torch.zeros(samples, 1, 9, 9, dtype=torch.uint8)
    x[:, :, 4, 4] = 1  # the place of this pixel tells the corner: anywhere in 9 x 9
    seen = one(x, numbers(one, samples)).sum((0, 1), dtype=torch.int64)
    assert seen.sum() == samples
    assert (seen - samples / 81).abs().max() < 5 * (samples / 81) ** 0.5


@pytest.mark.parametrize(("probability", "expected"), [(0.0, 0.0), (0.25, 0.25), (1.0, 1.0)])
def test_flip_mirrors_this_share_of_the_images(probability: float, expected: float) -> None:
    one = get_augmentation("flip", flip=probability)
    x = torch.arange(8, dtype=torch.uint8).expand(20_000, 1, 2, 8)
    y = one(x, numbers(one, 20_000))
    mirrored = (y == x.flip(-1)).flatten(1).all(1)
    assert torch.equal(y[~mirrored], x[~mirrored])
    assert mirrored.double().mean() == pytest.approx(expected, abs=0.016)  # 5 standard deviations


def test_no_padding_and_no_flip_leave_images_as_they_are() -> None:
    one = get_augmentation("crop-flip", pad=0, flip=0)
    x = images(20)
    assert torch.equal(one(x, numbers(one, 20)), x)


# --- composition


def test_composition_gives_each_part_its_own_columns() -> None:
    first, second = get_augmentation("crop", pad=2), get_augmentation("autoaugment")
    both = first.then(second)
    x, u = images(80), numbers(both, 80)
    assert both.width == first.width + second.width
    assert torch.equal(both(x, u), second(first(x, u[:, :2]), u[:, 2:]))
    assert both.spec == {"name": "crop+autoaugment", "parts": [first.spec, second.spec]}


def test_composition_is_associative() -> None:
    a, b, c = (get_augmentation(name) for name in ("flip", "crop", "autoaugment"))
    x = images(50)
    u = numbers(a.then(b).then(c), 50)
    assert torch.equal(a.then(b).then(c)(x, u), a.then(b.then(c))(x, u))


def test_cifar_is_crop_flip_then_autoaugment_and_tiny_is_autoaugment() -> None:
    x = images(100)
    parts = get_augmentation("crop-flip").then(get_augmentation("autoaugment"))
    u = numbers(parts, 100)
    assert torch.equal(get_augmentation("cifar")(x, u), parts(x, u))
    assert torch.equal(get_augmentation("tiny")(x, u[:, :5]), get_augmentation("autoaugment")(x, u[:, :5]))


# --- wrong input


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("crop", {"pad": -1}, "pad = -1"),
        ("crop-flip", {"flip": 1.5}, "flip = 1.5"),
        ("autoaugment", {"variant": "imagenet"}, "'torchvision', 'binned'"),
        ("autoaugmnt", {}, "did you mean 'autoaugment'"),
    ],
)
def test_wrong_values_are_named(name: str, values: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        get_augmentation(name, **values)


def test_images_of_another_type_or_shape_are_refused() -> None:
    one = get_augmentation("flip")
    with pytest.raises(UsageError, match=r"float32 \[2, 3, 4, 4\]"):
        one(torch.zeros(2, 3, 4, 4), torch.zeros(2, 1))
    with pytest.raises(UsageError, match=r"uint8 \[2, 4, 4\]"):
        one(torch.zeros(2, 4, 4, dtype=torch.uint8), torch.zeros(2, 1))


def test_numbers_of_another_shape_are_refused() -> None:
    with pytest.raises(UsageError, match=r"\[2, 8\]"):
        get_augmentation("cifar")(images(2), torch.zeros(2, 7))
