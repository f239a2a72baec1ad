"""Images by way of Pillow, which is optional: everything that needs it comes through here."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError, UsageError
from .arrays import Array, one_line

if TYPE_CHECKING:
    from types import ModuleType

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp")
_FORMATS = ("PNG", "JPEG", "BMP")
_DEEP = ("I", "F")  # first letters of Pillow's modes with more than 8 bits


def pillow(what: str) -> ModuleType:
    """Pillow's Image module, or an error that says how to get it."""
    try:
        from PIL import Image
    except ImportError:
        raise DataError(f"{what} needs Pillow to read images: install fedvls[images]") from None
    return Image


def is_image(name: str) -> bool:
    """Whether a file's name ends as that of an image; hidden files never count."""
    return name.lower().endswith(ENDINGS) and not name.rsplit("/", 1)[-1].startswith(".")


def decode_image(content: bytes, where: str, colour: bool = False) -> Array:
    """Pixels (height, width) of a grey image or (height, width, 3) of any other; `colour` asks for three always.

    Transparency is dropped.
    """
    image_module = pillow(where)
    try:
        with image_module.open(io.BytesIO(content), formats=_FORMATS) as image:
            mode: str = image.mode
            if not mode.startswith(_DEEP):
                pixels: Array = np.asarray(image.convert("L" if mode in ("1", "L") and not colour else "RGB"))
                return pixels
    except Exception as error:  # damaged images make Pillow raise many things
        raise DataError(f"{where} cannot be read as an image: {one_line(error)}") from None
    raise DataError(f"{where} has more than 8 bits per pixel (mode {mode}): save it with 8")


def to_samples(images: Sequence[Array], names: Sequence[str], size: tuple[int, int] | None) -> Array:
    """Images as (n, channels, height, width): one channel if all of them are grey, else three.

    size: height and width, to which images of another size are brought (bilinear, proportions are not kept). Without
        it all must have the same size already.
    """
    if size is None:
        sizes = Counter(image.shape[:2] for image in images)
        (size, often), *rest = sizes.most_common()
        if rest:
            odd = next(i for i, image in enumerate(images) if image.shape[:2] != size)
            raise DataError(
                f"{names[odd]} has {_times(images[odd].shape)} pixels but {often} of {len(images)} images have "
                f"{_times(size)}: give the size to bring them to, such as size = {_times(size)}"
            )
    grey = all(image.ndim == 2 for image in images)
    samples = np.empty((len(images), 1 if grey else 3, *size), np.uint8)
    for sample, image in zip(samples, images, strict=True):
        resized = image if image.shape[:2] == size else _resized(image, size)
        sample[...] = resized.transpose(2, 0, 1) if resized.ndim == 3 else resized[None]
    return samples


def parse_size(value: Any) -> tuple[int, int] | None:
    """`32` or `"32"`: a square; `"48x64"`: height and width."""
    if value is None:
        return None
    parts = str(value).lower().split("x")
    if isinstance(value, bool) or len(parts) > 2 or not all(part.strip().isdecimal() and int(part) for part in parts):
        raise UsageError(f"size = {value!r} must be a number of pixels, or height x width such as 48x64")
    return int(parts[0]), int(parts[-1])


def _resized(image: Array, size: tuple[int, int]) -> Array:
    image_module = pillow("resizing")
    height, width = size
    return np.asarray(image_module.fromarray(image).resize((width, height), image_module.Resampling.BILINEAR))


def _times(shape: Sequence[int]) -> str:
    return f"{shape[0]}x{shape[1]}"
