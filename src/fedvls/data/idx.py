"""The IDX format of MNIST and its relatives.

Four bytes (0, 0, type code, number of axes), one big-endian 32-bit length per axis, then the values, big-endian.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import IO, cast

import numpy as np

from ..errors import DataError
from .arrays import Array, one_line

_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_GZIP = b"\x1f\x8b"
_CHUNK = 1 << 20


def read_idx(path: Path) -> Array:
    """The array in an IDX file, gzipped or not (told by content: browsers unpack files and keep the `.gz`)."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == _GZIP
            raw.seek(0)
            if not packed:
                return _parse(raw, path)
            with gzip.open(raw) as stream:
                return _parse(cast(IO[bytes], stream), path)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is damaged: {one_line(error)}") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or one_line(error)}") from None


def _parse(stream: IO[bytes], path: Path) -> Array:
    magic = stream.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0":
        raise DataError(f"{path} is not an IDX file: it starts with {magic.hex(' ') or 'nothing'}, not 00 00")
    code, axes = magic[2], magic[3]
    if code not in _TYPES:
        raise DataError(f"{path} is not an IDX file: its type code is 0x{code:02x}")
    if axes == 0:
        raise DataError(f"{path} is not an IDX file: it has no axes")
    header = stream.read(4 * axes)
    if len(header) < 4 * axes:
        raise DataError(f"{path} is cut off in its header")
    shape = struct.unpack(f">{axes}I", header)
    dtype = np.dtype(_TYPES[code])
    size = math.prod(shape) * dtype.itemsize
    body = _read_at_most(stream, size)
    if len(body) < size:
        raise DataError(f"{path} is cut off: shape {shape} needs {size} bytes of values, it has {len(body)}")
    if stream.read(1):
        raise DataError(f"{path} is too long: shape {shape} needs {size} bytes of values, it has more")
    return np.frombuffer(body, dtype).astype(dtype.newbyteorder("="), copy=False).reshape(shape)


def _read_at_most(stream: IO[bytes], size: int) -> bytearray:
    """Up to `size` bytes, read bit by bit: a damaged header must not make us reserve memory for its claim."""
    body = bytearray()
    while len(body) < size and (chunk := stream.read(min(_CHUNK, size - len(body)))):
        body += chunk
    return body
