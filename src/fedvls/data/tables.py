"""Rows of a comma-separated file."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from ..errors import DataError
from .arrays import one_line
from .sources import read_unpacked

Row = tuple[int, list[str]]  # the line it ends on, and its cells


def read_rows(path: Path) -> list[Row]:
    """The rows of a UTF-8 file, packed or not; cells may be quoted, with quotes doubled. Empty rows are left out."""
    try:
        text = read_unpacked(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: {one_line(error)}") from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        rows = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise DataError(f"{path} line {reader.line_num}: {one_line(error)}") from None
    if not rows:
        raise DataError(f"{path} has no rows")
    return rows
