"""A table of measurements: a csv file with a column of labels and numbers in all others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import DataError
from .federated import FederatedData
from .holdout import held_out
from .tables import Row, read_rows

LABEL = "label"


def load_measurements(path: str | Path, classes: int, class_names: Sequence[str] = ()) -> FederatedData:
    """The rows of a csv whose first line names the columns, one of them `label`; of each class a fifth is for testing.

    Labels are names out of `class_names`, or class numbers 0..classes-1: one site's table need not hold every class,
    so it cannot number them by itself.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise DataError(f"{path} does not exist: name a csv file with a column {LABEL!r} and columns of numbers")
    (_, head), *rows = read_rows(path)
    columns = [name.strip() for name in head]
    if LABEL not in columns or len(columns) < 2 or not rows:
        raise DataError(f"{path} must have a line of column names, one of them {LABEL!r}, and rows below it")
    at = columns.index(LABEL)
    numbers = {name: number for number, name in enumerate(class_names)} or {str(c): c for c in range(classes)}
    labels = np.array([_label(path, row, at, numbers) for row in rows], dtype=np.int64)
    x = np.array([_measured(path, row, at, columns) for row in rows], dtype=np.float32)
    test = held_out(labels, [",".join(cells) for _, cells in rows])
    if not test.any():
        raise DataError(f"{path}: no class has two samples, so none can be held out for testing")
    return FederatedData.from_arrays(
        x[~test],
        labels[~test],
        x[test],
        labels[test],
        classes=classes or len(numbers),
        class_names=list(class_names) or None,
        name=path.stem,
    )


def _label(path: Path, row: Row, at: int, numbers: dict[str, int]) -> int:
    line, cells = row
    text = cells[at].strip() if at < len(cells) else ""
    if text not in numbers:
        raise DataError(f"{path} line {line}: label {text!r} is not one of {', '.join(numbers)}")
    return numbers[text]


def _measured(path: Path, row: Row, at: int, columns: Sequence[str]) -> list[float]:
    line, cells = row
    if len(cells) != len(columns):
        raise DataError(f"{path} line {line} has {len(cells)} cells for {len(columns)} columns")
    values = []
    for column, cell in enumerate(cells):
        if column == at:
            continue
        try:
            values.append(float(cell))
        except ValueError:
            raise DataError(f"{path} line {line}: {columns[column]} = {cell!r} is not a number") from None
    return values
