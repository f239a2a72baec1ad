"""AG's news: titles and first sentences of news articles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from .cache import Decoded, Found, stamps_of
from .download import data_folder, fetch
from .federated import FederatedData
from .sources import REPLACE, assemble, first_place
from .tables import Row, read_rows
from .text import LENGTH, encode

FILES = ("train.csv", "test.csv")
CHECKSUMS = ("md5:b1a00f826fdfbd249f79597b59e1dc12", "md5:d52ea96a97a2d943681189a97654912d")
BASE_URLS = ("https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/",)
CLASS_NAMES = ("World", "Sports", "Business", "Sci/Tech")
PUBLISHED = (120_000, 7_600)
PLACES = ("ag-news", "ag_news_csv", "AG_NEWS", ".")


def load_ag_news(data_dir: str | None = None, length: int = LENGTH, max_vocabulary: int | None = None) -> FederatedData:
    """News articles, 4 classes: 120,000 training and 7,600 test texts of 200 tokens (downloaded once, 31 MB).

    A text is the title and the description. `fedvls.data.text` says how it becomes tokens.
    length: tokens per text; longer ones are cut, shorter ones filled up.
    max_vocabulary: keep only so many tokens, the most frequent ones of the training text.
    """
    folder = data_folder(data_dir)
    spellings = [(file, file + ".gz") for file in FILES]
    paths = first_place((folder / place for place in PLACES), spellings)
    if paths is None:
        into = folder / "ag-news"
        missing = {
            file: checksum
            for file, checksum, names in zip(FILES, CHECKSUMS, spellings, strict=True)
            if first_place([into], [names]) is None
        }
        fetch(missing, BASE_URLS, into, "ag-news")
        paths = first_place([into], spellings) or [into / file for file in FILES]
    train, test = paths

    def decode() -> Decoded:
        train_texts, y_train = _read(train)
        test_texts, y_test = _read(test)
        x_train, x_test, size = encode(train_texts, test_texts, length, max_vocabulary)
        return Decoded.of(x_train, y_train, x_test, y_test, vocabulary=size)

    values = {"length": length, "max_vocabulary": max_vocabulary}
    found = Found("ag-news", train.parent, stamps_of(paths), decode, values=values, remedy=REPLACE)
    return assemble(found, "ag-news", PUBLISHED, class_names=CLASS_NAMES)


def _read(path: Path) -> tuple[list[str], NDArray[np.int64]]:
    """Texts and labels of rows of class (1 to 4), title and description."""
    rows = read_rows(path)
    if not rows[0][1][0].strip().isdecimal():
        rows = rows[1:]  # a line with the names of the columns
    if not rows:
        raise DataError(f"{path} has no rows")
    return [" ".join(cells[1:]) for _, cells in rows], np.array([_label(row, path) for row in rows], np.int64)


def _label(row: Row, path: Path) -> int:
    line, cells = row
    if len(cells) != 3:
        raise DataError(f"{path} line {line} has {len(cells)} cells: expected class, title and description")
    if cells[0].strip() not in ("1", "2", "3", "4"):
        raise DataError(f"{path} line {line}: class {cells[0]!r} is not one of 1, 2, 3, 4")
    return int(cells[0]) - 1
