"""USPS: handwritten digits from envelopes, in the LIBSVM format."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from ..errors import DataError
from .arrays import Array, one_line
from .cache import Decoded, Found, stamps_of
from .download import data_folder, fetch
from .federated import FederatedData
from .sources import REPLACE, assemble, first_place, read_unpacked

FILES = ("usps.bz2", "usps.t.bz2")
CHECKSUMS = ("md5:ec16c51db3855ca6c91edd34d0e9b197", "md5:8ea070ee2aca1ac39742fdd1ef5ed118")
BASE_URLS = ("https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/",)
PUBLISHED = (7_291, 2_007)
DIGITS = tuple(map(str, range(10)))
_SPELLINGS = [(file, file.removesuffix(".bz2")) for file in FILES]


def load_usps(data_dir: str | None = None) -> FederatedData:
    """Digits from envelopes, 10 classes: 7,291 training and 2,007 test images of 16x16 (downloaded once, 8 MB).

    Values -1 to 1 become 0 to 255, rounded.
    """
    return assemble(find_usps(data_folder(data_dir)), "usps", PUBLISHED, class_names=DIGITS, mean=0.5, std=0.5)


def find_usps(folder: Path) -> Found:
    """The two files, downloaded if they are not there."""
    into = folder / "usps"
    paths = first_place((into, folder), _SPELLINGS)
    if paths is None:
        missing = {
            file: checksum
            for file, checksum, names in zip(FILES, CHECKSUMS, _SPELLINGS, strict=True)
            if first_place([into], [names]) is None
        }
        fetch(missing, BASE_URLS, into, "usps")
        paths = first_place([into], _SPELLINGS) or [into / file for file in FILES]
    train, test = paths

    def decode() -> Decoded:
        return Decoded.of(*_read(train), *_read(test))

    return Found("usps", train.parent, stamps_of(paths), decode, remedy=REPLACE)


def _read(path: Path) -> tuple[Array, Array]:
    """Images and labels of lines `label index:value index:value ...`, with labels and indices from 1."""
    from sklearn.datasets import load_svmlight_file

    content = read_unpacked(path)
    try:
        sparse, labels = load_svmlight_file(io.BytesIO(content), n_features=256, zero_based=False)
    except (ValueError, IndexError, OverflowError) as error:
        raise DataError(f"{path} is not in the LIBSVM format: {one_line(error)}") from None
    values: Array = sparse.toarray()
    if len(values) == 0:
        raise DataError(f"{path} has no sample")
    if not np.isin(labels, np.arange(1, 11)).all():
        odd = int(np.argmin(np.isin(labels, np.arange(1, 11))))
        raise DataError(f"{path}: sample {odd} has label {labels[odd]:g}, not one of 1 to 10 (digit plus 1)")
    if not np.abs(values).max() <= 1:
        raise DataError(f"{path}: values go from {values.min():g} to {values.max():g}, expected -1 to 1")
    pixels = np.rint((values + 1) * 127.5).astype(np.uint8)
    return pixels.reshape(-1, 1, 16, 16), labels.astype(np.int64) - 1
