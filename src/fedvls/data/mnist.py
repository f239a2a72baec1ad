"""MNIST and Fashion-MNIST: the same four files with different contents, so one loader serves both."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import DataError
from .arrays import Array
from .cache import Decoded, Found, stamps_of
from .download import data_folder, fetch
from .federated import FederatedData
from .idx import read_idx
from .sources import REPLACE


@dataclass(frozen=True)
class Source:
    """Where one of the sets comes from and how it is told from the other."""

    name: str
    torchvision_folder: str
    base_urls: tuple[str, ...]
    checksums: tuple[str, ...]  # in the order of FILES
    class_names: tuple[str, ...]
    first_labels: tuple[int, ...]  # of the training set; file names alone do not tell the sets apart


FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)

MNIST = Source(
    name="mnist",
    torchvision_folder="MNIST",
    base_urls=("https://ossci-datasets.s3.amazonaws.com/mnist/",),
    checksums=(
        "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "md5:d53e105ee54ea40749a09fcbcd1e9432",
        "md5:9fb629c4189551a2d022fa330f9573f3",
        "md5:ec29112dd5afa0611ce80d1b7f02629c",
    ),
    class_names=tuple(map(str, range(10))),
    first_labels=(5, 0, 4, 1, 9, 2, 1, 3, 1, 4),
)

FASHION_MNIST = Source(
    name="fashion-mnist",
    torchvision_folder="FashionMNIST",
    base_urls=("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
    checksums=(
        "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "md5:25c81989df183df01b3e8a0aad5dffbe",
        "md5:bef4ecab320f06d8554ea6380940ec79",
        "md5:bb300cfdad3c16e7a12a480ee83cd310",
    ),
    class_names=(
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ),
    first_labels=(9, 0, 0, 3, 0, 2, 7, 2, 5, 5),
)


def load_mnist(data_dir: str | None = None) -> FederatedData:
    """Handwritten digits, 10 classes: 60,000 training and 10,000 test images of 28x28 (downloaded once, 11 MB)."""
    return _load(MNIST, FASHION_MNIST, data_dir)


def load_fashion_mnist(data_dir: str | None = None) -> FederatedData:
    """Pieces of clothing, 10 classes: 60,000 training and 10,000 test images of 28x28 (downloaded once, 30 MB)."""
    return _load(FASHION_MNIST, MNIST, data_dir)


def _load(source: Source, other: Source, data_dir: str | None) -> FederatedData:
    folder = data_folder(data_dir)
    paths = _find(folder, source) or _download(folder / source.name, source)
    x_train, y_train, x_test, y_test = _read(paths, source, other, folder)
    try:
        return FederatedData.from_arrays(
            x_train[:, None],
            y_train,
            x_test[:, None],
            y_test,
            class_names=source.class_names,
            name=source.name,
            mean=0.5,
            std=0.5,
        )
    except DataError as error:
        raise DataError(f"{source.name} in {paths[0].parent}: {error}") from None


def find_mnist(folder: Path) -> Found:
    """MNIST's files, downloaded if they are not there."""
    paths = _find(folder, MNIST) or _download(folder / MNIST.name, MNIST)

    def decode() -> Decoded:
        x_train, y_train, x_test, y_test = _read(paths, MNIST, FASHION_MNIST, folder)
        return Decoded.of(x_train[:, None], y_train, x_test[:, None], y_test)

    return Found(MNIST.name, paths[0].parent, stamps_of(paths), decode)


def _read(paths: list[Path], source: Source, other: Source, folder: Path) -> list[Array]:
    """Images and labels of both parts, if they are those of `source`."""
    try:
        x_train, y_train, x_test, y_test = (read_idx(path) for path in paths)
    except DataError as error:
        raise DataError(f"{error}; {REPLACE}") from None
    for path, images in ((paths[0], x_train), (paths[2], x_test)):
        if images.dtype != np.uint8 or images.shape[1:] != (28, 28):
            raise DataError(f"{path} holds {images.dtype} of shape {images.shape}: expected uint8 images of 28x28")
    if tuple(y_train.reshape(-1)[:10].tolist()) == other.first_labels:
        raise DataError(
            f"{paths[1]} belongs to {other.name}: {source.name} needs its own files in {folder / source.name}"
        )
    return [x_train, y_train, x_test, y_test]


def _find(folder: Path, source: Source) -> list[Path] | None:
    """The four files in the first place that holds them all: our layout, torchvision's, the folder itself."""
    for place in (folder / source.name, folder / source.torchvision_folder / "raw", folder):
        paths = [path for file in FILES if (path := _spelled(place, file))]
        if len(paths) == len(FILES):
            return paths
    return None


def _spelled(place: Path, file: str) -> Path | None:
    """A file under any of the spellings in circulation: `-idx3` or `.idx3`, packed or not."""
    plain = file.removesuffix(".gz")
    dotted = plain.replace("-idx", ".idx")
    candidates = (place / name for name in (plain, file, dotted, dotted + ".gz"))
    try:
        return next((path for path in candidates if path.is_file()), None)
    except OSError as error:
        raise DataError(f"{place} cannot be read: {error.strerror}") from None


def _download(into: Path, source: Source) -> list[Path]:
    missing = {f: s for f, s in zip(FILES, source.checksums, strict=True) if not _spelled(into, f)}
    fetch(missing, source.base_urls, into, source.name)
    return [_spelled(into, file) or into / file for file in FILES]
