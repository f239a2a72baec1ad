"""The same augmentation one image at a time with PIL and scipy: what the tests and the benchmark compare with.

Written from the documentation of PIL, of scipy and of torchvision's AutoAugment, without a look at the package.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PIL import Image, ImageEnhance, ImageOps
from scipy import ndimage

OPERATIONS: dict[str, Callable[[Image.Image, float], Image.Image]] = {
    "ShearX": lambda image, m: _affine(image, 1, m, 0, 0, 1, 0),
    "ShearY": lambda image, m: _affine(image, 1, 0, 0, m, 1, 0),
    "TranslateX": lambda image, m: _affine(image, 1, 0, -int(m), 0, 1, 0),
    "TranslateY": lambda image, m: _affine(image, 1, 0, 0, 0, 1, -int(m)),
    "Rotate": lambda image, m: image.rotate(m, Image.Resampling.NEAREST),
    "Brightness": lambda image, m: ImageEnhance.Brightness(image).enhance(m),
    "Color": lambda image, m: ImageEnhance.Color(image).enhance(m),
    "Contrast": lambda image, m: ImageEnhance.Contrast(image).enhance(m),
    "Sharpness": lambda image, m: ImageEnhance.Sharpness(image).enhance(m),
    "Posterize": lambda image, m: ImageOps.posterize(image, round(m)),
    "Solarize": lambda image, m: ImageOps.solarize(image, m),
    "AutoContrast": lambda image, m: ImageOps.autocontrast(image),
    "Equalize": lambda image, m: ImageOps.equalize(image),
    "Invert": lambda image, m: ImageOps.invert(image),
}


def _affine(image: Image.Image, *matrix: float) -> Image.Image:
    return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.NEAREST, fillcolor=0)


def spline_warp(operation: str, image: Image.Image, m: float) -> Image.Image:
    """Shear, translation (by m pixels) or rotation with `scipy.ndimage`, about a point half a pixel past the middle."""
    array = np.asarray(image)
    cos, sin = np.cos(np.deg2rad(m)), np.sin(np.deg2rad(m))
    matrix = {
        "ShearX": [[1, m, 0], [0, 1, 0], [0, 0, 1]],
        "ShearY": [[1, 0, 0], [m, 1, 0], [0, 0, 1]],
        "TranslateX": [[1, 0, 0], [0, 1, m], [0, 0, 1]],
        "TranslateY": [[1, 0, m], [0, 1, 0], [0, 0, 1]],
        "Rotate": [[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]],
    }[operation]
    there = np.array([[1, 0, array.shape[0] / 2 + 0.5], [0, 1, array.shape[1] / 2 + 0.5], [0, 0, 1]])
    back = np.array([[1, 0, -there[0, 2]], [0, 1, -there[1, 2]], [0, 0, 1]])
    whole = there @ np.array(matrix) @ back
    planes = array[:, :, None] if array.ndim == 2 else array
    warped = [ndimage.affine_transform(planes[:, :, c], whole[:2, :2], whole[:2, 2]) for c in range(planes.shape[2])]
    return Image.fromarray(warped[0] if array.ndim == 2 else np.stack(warped, axis=2))


def to_image(array: np.ndarray) -> Image.Image:
    """A PIL image from uint8 `[C, H, W]`: mode L or RGB."""
    return Image.fromarray(array[0] if array.shape[0] == 1 else np.ascontiguousarray(array.transpose(1, 2, 0)))


def to_array(image: Image.Image) -> np.ndarray:
    """uint8 `[C, H, W]`."""
    array = np.asarray(image)
    return array[None] if array.ndim == 2 else array.transpose(2, 0, 1)


def crop_flip(image: Image.Image, top: int, left: int, mirrored: bool, pad: int = 4) -> Image.Image:
    """Pad with black, cut at (top, left), mirror."""
    width, height = image.size
    image = ImageOps.expand(image, pad, fill=0).crop((left, top, left + width, top + height))
    return ImageOps.mirror(image) if mirrored else image
