"""Data from an `.npz` file: four arrays saved with `numpy.savez`. Nothing in it is ever unpickled."""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib
from pathlib import Path

import numpy as np

from ..errors import DataError, FedvlsError
from .arrays import Array, Scale, one_line
from .federated import FederatedData

KEYS = ("x_train", "y_train", "x_test", "y_test")
# What zipfile raises when bytes of an archive are wrong, and numpy when the text that describes an array is.
_DAMAGED_ZIP = (OSError, EOFError, RuntimeError, struct.error, zipfile.BadZipFile, zlib.error)
_DAMAGED_ARRAY = (ValueError, SyntaxError, tokenize.TokenError)


def load_npz(
    path: str | Path,
    *,
    mean: Scale | None = None,
    std: Scale | None = None,
    classes: int | None = None,
    vocabulary: int | None = None,
) -> FederatedData:
    """Read `x_train`, `y_train`, `x_test` and `y_test` from an `.npz` file; its name becomes the data's name.

    vocabulary: the samples are rows of tokens 0..vocabulary-1.
    """
    path = Path(path)
    x_train, y_train, x_test, y_test = _read(path)
    try:
        return FederatedData.from_arrays(
            *(x_train, y_train, x_test, y_test),
            name=path.stem,
            mean=mean,
            std=std,
            classes=classes,
            vocabulary=vocabulary,
        )
    except FedvlsError as error:
        raise type(error)(f"{path}: {error}") from None


def _read(path: Path) -> list[Array]:
    if path.is_dir():
        raise DataError(f"{path} is a folder: name an .npz file")
    if not path.exists():
        raise DataError(f"{path} does not exist: name an .npz file with {', '.join(KEYS)}")
    try:
        if not zipfile.is_zipfile(path):
            raise DataError(f"{path} is not a complete .npz file: save one with numpy.savez")
        with np.load(path, allow_pickle=False) as archive:
            missing = [key for key in KEYS if key not in archive.files]
            if missing:
                there = ", ".join(archive.files) or "nothing"
                raise DataError(f"{path} lacks {', '.join(missing)}; it holds {there}")
            return [_member(archive, key, path) for key in KEYS]
    except (*_DAMAGED_ZIP, *_DAMAGED_ARRAY) as error:
        raise DataError(f"{path} cannot be read: {one_line(error)}") from None


def _member(archive: np.lib.npyio.NpzFile, key: str, path: Path) -> Array:
    try:
        array: Array = archive[key]
    except MemoryError:
        raise DataError(f"{path}: {key} does not fit into memory") from None
    except (*_DAMAGED_ZIP, *_DAMAGED_ARRAY) as error:
        if "allow_pickle" in str(error):
            raise DataError(
                f"{path}: {key} holds pickled objects, which are never loaded: save plain numbers"
            ) from None
        raise DataError(f"{path}: {key} is damaged: {one_line(error)}") from None
    if not isinstance(array, np.ndarray):  # a zip member that is no array is handed over as bytes
        raise DataError(f"{path}: {key} is not an array: save it with numpy.savez")
    return array
