"""Text of one's own: a csv file with a text and a label in every row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from .cache import Decoded, Found, stamps_of
from .federated import FederatedData
from .holdout import held_out
from .sources import assemble, first_place
from .tables import read_rows
from .text import LENGTH, encode

ENDINGS = (".csv", ".csv.gz")
_SPELLINGS = [("train.csv", "train.csv.gz"), ("test.csv", "test.csv.gz")]


def load_csv(path: str, length: int = LENGTH, max_vocabulary: int | None = None) -> FederatedData:
    """Your own texts, classes by label: a csv file of text and label, or a folder with train.csv and test.csv.

    Columns named text and label are used, in any order and among others; without such names the first two columns are
    the text and the label, and there is no line of names. Labels may be words or numbers; they become class numbers in
    alphabetical (numbers: ascending) order. Files are UTF-8 and may be gzipped.
    A single file is split: of each class a fifth is for testing, chosen by a hash of the text.
    length, max_vocabulary: as for `ag-news`.
    """
    given = Path(path).expanduser().absolute()
    paths = files_of(given)

    def decode() -> Decoded:
        parts = [_read(file, train=number == 0) for number, file in enumerate(paths)]
        names = _class_names(parts[0].labels)
        texts = [part.texts for part in parts]
        labels = [_numbers(part, names) for part in parts]
        if len(parts) == 1:
            test = held_out(labels[0], texts[0])
            if not test.any():
                raise DataError(f"{given}: no class has two samples, so none can be held out for testing")
            texts = [[text for text, out in zip(texts[0], test, strict=True) if out == part] for part in (False, True)]
            labels = [labels[0][~test], labels[0][test]]
        x_train, x_test, size = encode(texts[0], texts[1], length, max_vocabulary)
        return Decoded.of(x_train, labels[0], x_test, labels[1], vocabulary=size, class_names=names)

    values = {"length": length, "max_vocabulary": max_vocabulary}
    name = given.name.removesuffix(".gz").removesuffix(".csv")
    return assemble(Found("csv", given, stamps_of(paths), decode, values=values), name)


def files_of(given: Path) -> list[Path]:
    """The file itself, or train.csv and test.csv of a folder."""
    if not given.exists():
        raise DataError(f"{given} does not exist: name a csv file, or a folder with train.csv and test.csv")
    if given.is_file():
        return [given]
    paths = first_place([given], _SPELLINGS)
    if paths is None:
        raise DataError(f"{given} must hold train.csv and test.csv (or name one csv file, which is then split)")
    return paths


def has_texts(folder: Path) -> bool:
    """Whether a folder is one of train.csv and test.csv."""
    return first_place([folder], _SPELLINGS[:1]) is not None


@dataclass(frozen=True)
class _Part:
    path: Path
    texts: list[str]
    labels: list[str]
    lines: list[int]


def _read(path: Path, train: bool) -> _Part:
    rows = read_rows(path)
    head = [cell.strip().lower() for cell in rows[0][1]]
    named = "text" in head and "label" in head
    text, label = (head.index("text"), head.index("label")) if named else (0, 1)
    rows = rows[1:] if named else rows
    if not rows:
        raise DataError(f"{path} has no rows below the names of its columns")
    for line, cells in rows:
        if len(cells) <= max(text, label):
            raise DataError(f"{path} line {line} has {len(cells)} cells: expected a text and a label")
    labels = [cells[label].strip() for _, cells in rows]
    for (line, _), one in zip(rows, labels, strict=True):
        if not one:
            raise DataError(f"{path} line {line} has no label")
    if train and not named and len(rows) > 1 and Counter(labels)[labels[0]] == 1:
        raise DataError(
            f"{path} line 1: label {labels[0]!r} occurs nowhere else, so this may be a line of column names; "
            "name the columns text and label"
        )
    return _Part(path, [cells[text] for _, cells in rows], labels, [line for line, _ in rows])


def _class_names(labels: Sequence[str]) -> list[str]:
    names = set(labels)
    if all(name.isdecimal() for name in names):
        return sorted(names, key=lambda name: (int(name), name))
    return sorted(names)


def _numbers(part: _Part, names: Sequence[str]) -> NDArray[np.int64]:
    number = {name: at for at, name in enumerate(names)}
    for line, label in zip(part.lines, part.labels, strict=True):
        if label not in number:
            raise DataError(f"{part.path} line {line}: label {label!r} is not among those of the training set")
    return np.array([number[label] for label in part.labels], np.int64)
