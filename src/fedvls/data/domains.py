"""The same ten digits from four sources: one classifier, several domains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, UsageError, unknown
from .arrays import Array
from .cache import Decoded, Found
from .download import data_folder
from .federated import FederatedData
from .mnist import find_mnist
from .sources import assemble
from .svhn import find_svhn, find_syn_digits
from .usps import DIGITS, find_usps

FIND: dict[str, Callable[[Path], Found]] = {
    "mnist": find_mnist,
    "usps": find_usps,
    "svhn": find_svhn,
    "syn-digits": find_syn_digits,
}
_SIDE = 32
_CHUNK = 4096  # images that are resized in one go


def load_digits_domains(
    data_dir: str | None = None, domains: str | Sequence[str] = "mnist,usps,svhn,syn-digits"
) -> FederatedData:
    """Digits of four domains (mnist, usps, svhn, syn-digits), 10 classes: images of 3x32x32, a test set for each.

    Every image is brought to 32x32 by bilinear interpolation (pixel centres aligned, edges repeated) and rounded; grey
    ones get three equal channels. `domain_train` and `domain_test` say which domain a sample is from. The partition
    `per-domain` gives every domain its own clients.
    domains: those to use, as a list or separated by commas; the order numbers them.
    """
    names = _names(domains)
    folder = data_folder(data_dir)
    found = {name: _found(name, folder, names) for name in names}

    def decode() -> Decoded:
        arrays: dict[str, list[Array]] = {key: [] for key in ("x_train", "y_train", "x_test", "y_test")}
        of_domain: dict[str, list[Array]] = {"domain_train": [], "domain_test": []}
        for number, one in enumerate(found.values()):
            made = one.decode_or_say().arrays
            for part in ("train", "test"):
                arrays[f"x_{part}"].append(to_colour(bilinear(made[f"x_{part}"], _SIDE)))
                arrays[f"y_{part}"].append(made[f"y_{part}"].astype(np.int64))
                of_domain[f"domain_{part}"].append(np.full(len(made[f"y_{part}"]), number))
        joined = {key: np.concatenate(parts) for key, parts in {**arrays, **of_domain}.items()}
        return Decoded(joined, {"domains": names})

    stamps = tuple(
        (f"{name}: {one.root}: {file}", size, changed)
        for name, one in found.items()
        for file, size, changed in one.stamps
    )
    joint = Found("digits-domains", folder, stamps, decode, values={"domains": names})
    return assemble(joint, "digits-domains", class_names=DIGITS, mean=0.5, std=0.5)


def bilinear(images: Array, side: int) -> NDArray[np.uint8]:
    """Images (n, channels, height, width) in uint8 brought to side x side.

    With s the old side, pixel i takes its value from the place (i + 1/2) * s / side - 1/2 between the old pixels,
    clipped to them. For enlarging, which is what digits need: nothing is averaged away when images get smaller. Weights
    between sides of 16, 28 and 32 are whole multiples of 1/16, so every sum is exact and the same on every machine.
    """
    if images.shape[2:] == (side, side):
        return images
    rows, columns = (_weights(old, side) for old in images.shape[2:])
    out = np.empty((*images.shape[:2], side, side), np.uint8)
    for start in range(0, len(images), _CHUNK):
        part = images[start : start + _CHUNK].astype(np.float32)
        out[start : start + _CHUNK] = np.rint(rows @ part @ columns.T)
    return out


def to_colour(images: Array) -> Array:
    """Three channels, equal where there was one."""
    return images if images.shape[1] == 3 else np.repeat(images, 3, axis=1)


def _weights(old: int, new: int) -> NDArray[np.float32]:
    """Matrix [new, old] of the interpolation along one axis; its rows add up to 1."""
    place = np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
    left = np.minimum(np.floor(place).astype(np.int64), max(old - 2, 0))
    right = np.minimum(left + 1, old - 1)
    weights = np.zeros((new, old), np.float32)
    at = np.arange(new)
    np.add.at(weights, (at, left), 1 - (place - left))
    np.add.at(weights, (at, right), place - left)
    return weights


def _names(domains: str | Sequence[str]) -> list[str]:
    if not isinstance(domains, str | Sequence):
        raise UsageError(f"domains = {domains!r} must be names, such as mnist,usps")
    listed = domains.split(",") if isinstance(domains, str) else list(map(str, domains))
    names = [name.strip() for name in listed if name.strip()]
    if not names:
        raise UsageError(f"domains = {domains!r} names none of {', '.join(FIND)}")
    for at, name in enumerate(names):
        if name not in FIND:
            raise unknown("domain", name, FIND)
        if name in names[:at]:
            raise UsageError(f"domains = {domains!r} names {name} twice")
    return names


def _found(name: str, folder: Path, names: list[str]) -> Found:
    try:
        return FIND[name](folder)
    except DataError as error:
        others = ",".join(other for other in names if other != name)
        raise DataError(f"{error}" + (f"; or leave it out: domains = {others}" if others else "")) from None
