"""CIFAR-10 and CIFAR-100, from either form in which they are published: pickled batches or plain records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from .archives import tar_members
from .arrays import Array, as_labels
from .cache import Decoded, Found, stamps_of
from .download import data_folder, fetch
from .federated import FederatedData
from .pickles import load_pickle
from .sources import REPLACE, assemble

Batch = tuple[Array, NDArray[np.int64]]
_PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class Form:
    """One of the published forms: an archive with a folder of batches."""

    archive: str
    checksum: str
    folder: str
    train: tuple[str, ...]
    test: str
    names: str  # the file with the names of the classes, which may be missing
    read_batch: Callable[[bytes, str], Batch]
    read_names: Callable[[bytes, str], list[str]]


@dataclass(frozen=True)
class Source:
    """One of the two sets."""

    name: str
    classes: int
    class_names: tuple[str, ...]
    forms: tuple[Form, ...]  # the first one is downloaded
    mean: tuple[float, ...]
    std: tuple[float, ...]
    base_urls: tuple[str, ...] = ("https://www.cs.toronto.edu/~kriz/",)
    published: tuple[int, int] = (50_000, 10_000)


def _pickled_batch(content: bytes, where: str, labels_key: str) -> Batch:
    batch = load_pickle(content, where)
    pixels, labels = _value(batch, "data"), _value(batch, labels_key)
    if not isinstance(pixels, np.ndarray) or labels is None:
        raise DataError(f"{where} is not a CIFAR batch: it lacks data or {labels_key}")
    if pixels.dtype != np.uint8 or pixels.ndim != 2 or pixels.shape[1] != _PIXELS:
        raise DataError(f"{where} holds {pixels.dtype} of shape {pixels.shape}: expected uint8 rows of {_PIXELS}")
    return _checked(np.asarray(pixels), as_labels(labels, f"{where}: {labels_key}"), where)


def _pickled_names(content: bytes, where: str) -> list[str]:
    names = _value(load_pickle(content, where), "fine_label_names")
    if not isinstance(names, list):
        raise DataError(f"{where} lacks fine_label_names")
    return [name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name) for name in names]


def _value(mapping: object, key: str) -> Any:
    """An entry of a batch, whose keys Python 2 wrote as bytes."""
    return mapping.get(key.encode(), mapping.get(key)) if isinstance(mapping, dict) else None


def _record_batch(content: bytes, where: str, label_bytes: int) -> Batch:
    """Records of one or two label bytes (coarse before fine) and the pixels."""
    record = label_bytes + _PIXELS
    if not content or len(content) % record:
        raise DataError(f"{where} is cut off: {len(content)} bytes are not a whole number of records of {record}")
    records = np.frombuffer(content, np.uint8).reshape(-1, record)
    return _checked(records[:, label_bytes:], records[:, label_bytes - 1].astype(np.int64), where)


def _listed_names(content: bytes, where: str) -> list[str]:
    return content.decode("utf-8", "replace").split()


def _checked(pixels: Array, labels: NDArray[np.int64], where: str) -> Batch:
    if len(pixels) != len(labels):
        raise DataError(f"{where} has {len(pixels)} images but {len(labels)} labels")
    return pixels.reshape(-1, 3, 32, 32), labels


CIFAR10 = Source(
    name="cifar10",
    classes=10,
    class_names=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    mean=(125.3 / 255, 123.0 / 255, 113.9 / 255),
    std=(63.0 / 255, 62.1 / 255, 66.7 / 255),
    forms=(
        Form(
            archive="cifar-10-python.tar.gz",
            checksum="md5:c58f30108f718f92721af3b95e74349a",
            folder="cifar-10-batches-py",
            train=tuple(f"data_batch_{number}" for number in range(1, 6)),
            test="test_batch",
            names="",
            read_batch=partial(_pickled_batch, labels_key="labels"),
            read_names=_pickled_names,
        ),
        Form(
            archive="cifar-10-binary.tar.gz",
            checksum="md5:c32a1d4ab5d03f1284b67883e8d87530",
            folder="cifar-10-batches-bin",
            train=tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
            test="test_batch.bin",
            names="",
            read_batch=partial(_record_batch, label_bytes=1),
            read_names=_listed_names,
        ),
    ),
)

CIFAR100 = Source(
    name="cifar100",
    classes=100,
    class_names=(),
    mean=(0.50707516, 0.48654887, 0.44091784),
    std=(0.26733429, 0.25643846, 0.27615047),
    forms=(
        Form(
            archive="cifar-100-python.tar.gz",
            checksum="md5:eb9058c3a382ffc7106e4002c42a8d85",
            folder="cifar-100-python",
            train=("train",),
            test="test",
            names="meta",
            read_batch=partial(_pickled_batch, labels_key="fine_labels"),
            read_names=_pickled_names,
        ),
        Form(
            archive="cifar-100-binary.tar.gz",
            checksum="md5:03b5dce01913d631647c71ecec9e9cb8",
            folder="cifar-100-binary",
            train=("train.bin",),
            test="test.bin",
            names="fine_label_names.txt",
            read_batch=partial(_record_batch, label_bytes=2),
            read_names=_listed_names,
        ),
    ),
)


def load_cifar10(data_dir: str | None = None) -> FederatedData:
    """Small photographs, 10 classes: 50,000 training and 10,000 test images of 3x32x32 (downloaded once, 170 MB)."""
    return _load(CIFAR10, data_dir)


def load_cifar100(data_dir: str | None = None) -> FederatedData:
    """Small photographs, 100 classes: 50,000 training and 10,000 test images of 3x32x32 (downloaded once, 169 MB).

    Labels are the fine ones.
    """
    return _load(CIFAR100, data_dir)


def _load(source: Source, data_dir: str | None) -> FederatedData:
    folder = data_folder(data_dir)
    found = _find(source, folder)
    if found is None:
        form, into = source.forms[0], folder / source.name
        fetch({form.archive: form.checksum}, source.base_urls, into, source.name)
        found = _in_archive(source, form, into / form.archive)
    return assemble(found, source.name, source.published, classes=source.classes, mean=source.mean, std=source.std)


def _find(source: Source, folder: Path) -> Found | None:
    """Unpacked batches, else an archive, in our layout or in the folder itself (where torchvision puts them)."""
    places = (folder / source.name, folder)
    for place in places:
        for form in source.forms:
            for inner in (place / form.folder, place):
                if all((inner / name).is_file() for name in (*form.train, form.test)):
                    return _in_folder(source, form, inner)
    for place in places:
        for form in source.forms:
            if (place / form.archive).is_file():
                return _in_archive(source, form, place / form.archive)
    return None


def _in_folder(source: Source, form: Form, folder: Path) -> Found:
    names = [name for name in (*form.train, form.test, form.names) if name and (folder / name).is_file()]

    def decode() -> Decoded:
        contents = {name: (folder / name).read_bytes() for name in names}
        return _decode(source, form, contents, f"{folder}/")

    return Found(source.name, folder, stamps_of(folder / name for name in names), decode, remedy=REPLACE)


def _in_archive(source: Source, form: Form, path: Path) -> Found:
    def decode() -> Decoded:
        prefix = form.folder + "/"
        members = tar_members(path, {prefix + name for name in (*form.train, form.test, form.names) if name})
        contents = {name.removeprefix(prefix): content for name, content in members.items()}
        for name in (*form.train, form.test):
            if name not in contents:
                raise DataError(f"{path} lacks {prefix}{name}")
        return _decode(source, form, contents, f"{path}: {prefix}")

    return Found(source.name, path, stamps_of([path]), decode, remedy=REPLACE)


def _decode(source: Source, form: Form, contents: dict[str, bytes], where: str) -> Decoded:
    train = [form.read_batch(contents[name], where + name) for name in form.train]
    x_test, y_test = form.read_batch(contents[form.test], where + form.test)
    names = list(source.class_names)
    if form.names in contents:
        names = form.read_names(contents[form.names], where + form.names)
        if len(names) != source.classes:
            raise DataError(f"{where}{form.names} has {len(names)} names for {source.classes} classes")
    x_train, y_train = (np.concatenate(parts) for parts in zip(*train, strict=True))
    return Decoded.of(x_train, y_train, x_test, y_test, class_names=names)
