"""Checks that turn whatever a user hands over into arrays the rest of the package can rely on.

Every message names the array, the position and the value, because "invalid input" in 60,000 samples helps nobody.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, UsageError

Array = NDArray[Any]
Scale = float | str | Sequence[float]  # one number for all channels, or one per channel ("0.5,0.4,0.3" from a shell)

MAX_CLASSES = 1_000_000  # above this, labels are identifiers rather than class numbers
_CHUNK = 1 << 24  # values looked at in one go, so that a check needs little memory next to the data


def as_array(value: object, name: str) -> Array:
    """`value` as an array: anything numpy reads, and torch tensors on any device."""
    tensor: Any = value
    if hasattr(tensor, "detach") and hasattr(tensor, "cpu"):  # a torch tensor, recognised without importing torch
        tensor = tensor.detach().cpu()
        if str(tensor.dtype) == "torch.bfloat16":  # numpy has no such type
            tensor = tensor.float()
    try:
        return np.asarray(tensor)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"{name} cannot be read as an array: {one_line(error)}") from None


def as_samples(value: object, name: str) -> Array:
    """Samples as contiguous uint8, float32 or float64; other numbers become float32 and are not rescaled."""
    x = as_array(value, name)
    if x.dtype.kind not in "buif":
        raise DataError(f"{name} has dtype {x.dtype}: samples must be numbers")
    if x.ndim < 2 or 0 in x.shape[1:]:
        raise DataError(
            f"{name} has shape {x.shape}: the first axis counts samples, and a sample needs at least a value"
        )
    if len(x) == 0:
        raise DataError(f"{name} is empty: at least one sample is needed")
    if x.dtype.kind != "f":
        dtype = np.dtype(np.uint8 if x.dtype == np.uint8 else np.float32)
    else:
        dtype = np.dtype(np.float32 if x.dtype.itemsize <= 4 else np.float64)
    with np.errstate(over="ignore"):  # a value too large for the type becomes infinite and is named below
        x = np.require(x, dtype=dtype, requirements=_requirements(x))
    _refuse_non_finite(x, name)
    return x


def as_tokens(value: object, name: str, vocabulary: int) -> NDArray[np.int32]:
    """Token numbers 0..vocabulary-1, one row per sample, as contiguous int32."""
    x = as_array(value, name)
    if x.dtype.kind not in "iu":
        raise DataError(f"{name} has dtype {x.dtype}: tokens (vocabulary = {vocabulary}) must be whole numbers")
    if x.ndim < 2 or 0 in x.shape:
        raise DataError(f"{name} has shape {x.shape}: at least one sample with at least one token is needed")
    for start, part in _chunks(np.ascontiguousarray(x).reshape(-1)):
        wrong = (part < 0) | (part >= vocabulary)
        if wrong.any():
            _at(x, start + int(np.argmax(wrong)), name, f" is outside 0..{vocabulary - 1} (vocabulary = {vocabulary})")
    return np.require(x, dtype=np.int32, requirements=_requirements(x))


def as_labels(value: object, name: str) -> NDArray[np.int64]:
    """One whole number >= 0 per sample; a column is flattened, floats with whole values are converted."""
    y = as_array(value, name)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise DataError(f"{name} has shape {y.shape}: one class number per sample is needed")
    if len(y) == 0:
        raise DataError(f"{name} is empty: at least one label is needed")
    if y.dtype.kind not in "buif":
        raise DataError(f"{name} has dtype {y.dtype}: labels must be class numbers 0, 1, 2, ...")
    if y.dtype.kind == "f":
        _refuse(y, ~np.isfinite(y) | (np.floor(y) != y), name, "is not a whole number")
    _refuse(y, y < 0, name, "is negative: labels start at 0")
    _refuse(
        y, y >= MAX_CLASSES, name, f"is too large for a class number (at most {MAX_CLASSES - 1}): number them 0, 1, ..."
    )
    return np.require(y, dtype=np.int64, requirements=["C", "W"])


def number_of_tokens(value: object) -> int:
    """A size of a vocabulary, checked."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 1 <= value < 2**31:
        raise UsageError(f"vocabulary = {value!r} must be a whole number of at least 1")
    return int(value)


def refuse_labels_outside(y: NDArray[np.int64], classes: int, name: str) -> None:
    """Raise for the first label that is not one of the classes."""
    _refuse(y, y >= classes, name, f"is outside 0..{classes - 1} (classes = {classes})")


def as_scale(value: Scale | None, channels: int, name: str) -> tuple[float, ...] | None:
    """A mean or standard deviation as one finite number per channel; a single number serves all channels."""
    if value is None:
        return None
    parts: Sequence[Any]
    if isinstance(value, str):
        parts = value.split(",")
        parts = parts * channels if len(parts) == 1 else parts
    else:
        parts = [value] * channels if np.ndim(value) == 0 else list(value)  # type: ignore[arg-type]
    try:
        numbers = tuple(float(part) for part in parts)
    except (TypeError, ValueError):
        raise UsageError(f"{name} = {value!r} must be a number or one number per channel") from None
    if not all(map(math.isfinite, numbers)):
        raise UsageError(f"{name} = {value!r} must be finite")
    if len(numbers) != channels:
        raise UsageError(f"{name} = {value!r} has {len(numbers)} values: the samples have {channels} channel(s)")
    return numbers


def one_line(error: BaseException) -> str:
    """The text of an error from elsewhere, fit for a one-line message."""
    return " ".join(str(error).split()) or type(error).__name__


def _refuse(y: Array, wrong: NDArray[np.bool_], name: str, why: str) -> None:
    if wrong.any():
        at = int(np.argmax(wrong))
        raise DataError(f"{name}[{at}] = {y[at]} {why}")


def _refuse_non_finite(x: Array, name: str) -> None:
    if x.dtype.kind != "f":
        return
    for start, part in _chunks(x.reshape(-1)):
        finite = np.isfinite(part)
        if not finite.all():
            _at(x, start + int(np.argmin(finite)), name, ": every value must be finite")


def _at(x: Array, at: int, name: str, why: str) -> NoReturn:
    """Name the value at this place of the flattened array."""
    place = np.unravel_index(at, x.shape)
    raise DataError(f"{name}[{', '.join(str(int(i)) for i in place)}] = {x[place]}{why}")


def _requirements(x: Array) -> list[Literal["C", "W"]]:
    """Memory is made writable, which torch asks for; the map of a file stays one, which is what makes it cheap."""
    return ["C"] if isinstance(x.base, np.memmap) else ["C", "W"]


def _chunks(flat: Array) -> Iterator[tuple[int, Array]]:
    for start in range(0, len(flat), _CHUNK):
        yield start, flat[start : start + _CHUNK]
