"""Finding the files of a data set, opening packed ones, and making `FederatedData` of what was decoded."""

from __future__ import annotations

import bz2
import gzip
import logging
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ..errors import DataError, FedvlsError
from .arrays import one_line
from .cache import Decoded, Found
from .federated import FederatedData

log = logging.getLogger("fedvls")

REPLACE = "replace it, or delete it to have it downloaded again"

_UNPACK: dict[bytes, Callable[[bytes], bytes]] = {b"\x1f\x8b": gzip.decompress, b"BZh": bz2.decompress}


def first_place(places: Iterable[Path], spellings: Iterable[Iterable[str]]) -> list[Path] | None:
    """All files in the first place that has every one of them, each under any of its spellings."""
    wanted = [tuple(names) for names in spellings]
    for place in places:
        found = [next((path for name in names if (path := place / name).is_file()), None) for names in wanted]
        paths = [path for path in found if path is not None]
        if len(paths) == len(wanted):
            return paths
    return None


def read_unpacked(path: Path) -> bytes:
    """A whole file; one that is packed with gzip or bzip2 (told by its content, not its name) is unpacked."""
    content = path.read_bytes()
    try:
        for magic, unpack in _UNPACK.items():
            if content.startswith(magic):
                return unpack(content)
    except (EOFError, ValueError, zlib.error, OSError) as error:  # bz2 reports damage as an OSError
        raise DataError(f"{path} is damaged: {one_line(error)}") from None
    return content


def assemble(found: Found, name: str, published: tuple[int, int] | None = None, **keywords: Any) -> FederatedData:
    """The data that were found, decoded or taken from the cache; `published` sizes that differ are told in the log."""
    made: Decoded = found.load()
    try:
        data = FederatedData.from_arrays(
            made.arrays["x_train"],
            made.arrays["y_train"],
            made.arrays["x_test"],
            made.arrays["y_test"],
            name=name,
            **{**made.about, **keywords},
            domain_train=made.arrays.get("domain_train"),
            domain_test=made.arrays.get("domain_test"),
        )
    except FedvlsError as error:
        raise type(error)(f"{name} in {found.root}: {error}") from None
    sizes = len(data.y_train), len(data.y_test)
    if published is not None and sizes != published:
        log.warning(
            "%s in %s has %d training and %d test samples: the published set has %d and %d",
            *(name, found.root, *sizes, *published),
        )
    return data
