"""Pickles of arrays, read without trusting them.

A pickle is a program: unpickling one runs whatever it names. CIFAR has been published as pickles, so they are read
here by an unpickler that knows seven names, all of them needed to write down an array, and answers each with a
stand-in of ours that checks what it is given. Nothing the file names is imported, looked up or called.
"""

from __future__ import annotations

import io
import math
import pickle
import re
from typing import Any, Protocol

import numpy as np

from ..errors import DataError
from .arrays import one_line

_TYPE = re.compile(r"[biuf][1248]")
_ORDER = ("<", ">", "|", "=")


def load_pickle(content: bytes, where: str) -> object:
    """Lists, dicts, tuples, text, bytes, numbers and arrays of numbers from a pickle; anything else is refused.

    Text that Python 2 wrote comes out as bytes. `where` names the file in errors.
    """
    try:
        return _Unpickler(content, where).load()
    except DataError:
        raise
    except Exception as error:  # bytes that are no pickle can make unpickling raise anything
        raise DataError(f"{where} is not a complete pickle of arrays: {one_line(error)}") from None


class _Unpickler(pickle.Unpickler):
    def __init__(self, content: bytes, where: str) -> None:
        super().__init__(io.BytesIO(content), encoding="bytes")
        self._where = where

    def find_class(self, module: str, name: str) -> Any:
        stand_in = _ADMITTED.get((module, name))
        if stand_in is None:
            raise DataError(
                f"{self._where} is refused: it asks for {module}.{name}, and only arrays, lists, dicts, text and "
                "numbers are read from a pickle"
            )
        return stand_in

    def persistent_load(self, pid: object) -> Any:
        raise DataError(f"{self._where} is refused: it refers to an object outside the file")


class _Type:
    """Stands for a numpy.dtype: a plain number type, whose byte order arrives separately."""

    __slots__ = ("code", "order")

    def __init__(self, code: object) -> None:
        self.code, self.order = _text(code), "|"
        if not _TYPE.fullmatch(self.code):
            raise ValueError(f"type {self.code!r} is not a plain number")

    def __setstate__(self, state: Any) -> None:
        self.order = _text(state[1])
        if self.order not in _ORDER:
            raise ValueError(f"byte order {self.order!r} does not exist")

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(("" if self.order == "|" else self.order) + self.code)


class _Array(np.ndarray[Any, Any]):
    """Stands for a numpy.ndarray that is filled by its state, once the state fits together."""

    __slots__ = ()

    def __setstate__(self, state: Any, /) -> None:
        _, shape, kind, fortran, raw = state
        if not isinstance(kind, _Type) or not isinstance(raw, bytes):
            raise ValueError("an array must hold plain numbers")
        if not (isinstance(shape, tuple) and all(type(length) is int and length >= 0 for length in shape)):
            raise ValueError("an array must have a shape")
        if math.prod(shape) * kind.dtype.itemsize != len(raw):
            raise ValueError(f"an array of shape {shape} and type {kind.dtype} cannot have {len(raw)} bytes")
        checked: Any = (1, shape, kind.dtype, bool(fortran), raw)
        super().__setstate__(checked)


# Each stand-in is an object without attributes: a pickle can call it, but not change it for the next pickle.


class _StandIn(Protocol):
    def __call__(self, *arguments: Any) -> object: ...


class _MakeArray:
    __slots__ = ()

    def __call__(self, kind: object, shape: object, code: object) -> object:
        return _Array((0,), np.uint8)


class _MakeType:
    __slots__ = ()

    def __call__(self, code: object, align: object = False, copy: object = False) -> object:
        return _Type(code)


class _MakeScalar:
    __slots__ = ()

    def __call__(self, kind: object, raw: object) -> object:
        if not isinstance(kind, _Type) or not isinstance(raw, bytes) or len(raw) != kind.dtype.itemsize:
            raise ValueError("a number must have a plain type and as many bytes")
        return np.frombuffer(raw, kind.dtype)[0].item()


class _Encode:
    """Stands for _codecs.encode, by which Python 3 writes bytes where protocols 0 to 2 have none."""

    __slots__ = ()

    def __call__(self, text: object, encoding: object = "latin1") -> object:
        if not isinstance(text, str) or _text(encoding) not in ("latin1", "latin-1"):
            raise ValueError("bytes must be written as latin1 text")
        return text.encode("latin1")


class _Name:
    """Stands for the class numpy.ndarray, which is only ever an argument."""

    __slots__ = ()

    def __call__(self, *arguments: object) -> object:
        raise ValueError("an array must be written as numpy writes it")


_ADMITTED: dict[tuple[str, str], _StandIn] = {
    ("numpy", "ndarray"): _Name(),
    ("numpy", "dtype"): _MakeType(),
    ("_codecs", "encode"): _Encode(),
}
for _module in ("numpy.core.multiarray", "numpy._core.multiarray"):
    _ADMITTED[_module, "_reconstruct"] = _MakeArray()
    _ADMITTED[_module, "scalar"] = _MakeScalar()


def _text(value: object) -> str:
    """A short name, which Python 2 wrote as bytes and Python 3 as text."""
    if isinstance(value, bytes):
        return value.decode("ascii")
    if isinstance(value, str):
        return value
    raise ValueError(f"{type(value).__name__} where a name is expected")
