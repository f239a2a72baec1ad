"""Tiny ImageNet, from the published folder or straight from its zip archive."""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing
from pathlib import Path

import numpy as np

from ..errors import DataError
from .archives import FolderTree, Tree, ZipTree
from .arrays import Array
from .cache import Decoded, Found
from .download import data_folder, fetch
from .federated import FederatedData
from .images import decode_image, is_image, pillow
from .sources import REPLACE, assemble

FOLDER = "tiny-imagenet-200"
ARCHIVE = "tiny-imagenet-200.zip"
CHECKSUM = "md5:90528d7ca1a48142e341f4ef8d21d0de"
BASE_URLS = ("http://cs231n.stanford.edu/",)
PUBLISHED = (100_000, 10_000)
_SIDE = 64


def load_tiny_imagenet(data_dir: str | None = None) -> FederatedData:
    """Photographs, 200 classes: 100,000 training and 10,000 test images of 3x64x64 (downloaded once, 248 MB).

    Classes are numbered in the order of wnids.txt. The labelled validation images are the test set, grouped by class
    as val_annotations.txt says (a folder in which that was done already is read too). The published test images have
    no labels and are not used. Grey images become RGB. Reading needs Pillow.
    """
    folder = data_folder(data_dir)
    tree = _find(folder)
    if tree is None:
        into = folder / "tiny-imagenet"
        fetch({ARCHIVE: CHECKSUM}, BASE_URLS, into, "tiny-imagenet")
        tree = ZipTree(into / ARCHIVE, FOLDER)
    return assemble(_found(tree), "tiny-imagenet", PUBLISHED, mean=0.5, std=0.5)


def _found(tree: Tree) -> Found:
    def decode() -> Decoded:
        with closing(tree):
            return _decode(tree)

    return Found("tiny-imagenet", tree.where, tree.stamps, decode, remedy=REPLACE)


def _find(folder: Path) -> Tree | None:
    """The unpacked folder, else the archive, in our layout or in the folder itself."""
    for place in (folder / "tiny-imagenet", folder):
        for inner in (place / FOLDER, place):
            if (inner / "wnids.txt").is_file() and (inner / "train").is_dir():
                return FolderTree.of(inner, below=("train", "val"))
    for place in (folder / "tiny-imagenet", folder):
        if (place / ARCHIVE).is_file():
            return ZipTree(place / ARCHIVE, FOLDER)
    return None


def _decode(tree: Tree) -> Decoded:
    pillow("tiny-imagenet")
    wnids = [line.strip() for line in _lines(tree, "wnids.txt")]
    if len(set(wnids)) != len(wnids) or len(wnids) < 2:
        raise DataError(f"{tree.where}: wnids.txt must list at least two classes, each once")
    images = sorted(name for name in tree.names if is_image(name))
    train, test = defaultdict(list), defaultdict(list)
    annotated = _annotations(tree, set(wnids))
    for name in images:
        match name.split("/"):
            case ["train", wnid, *_]:
                train[wnid].append(name)
            case ["val", "images", file]:
                if file not in annotated:
                    raise DataError(f"{tree.where}: {name} has no line in val/val_annotations.txt")
                test[annotated[file]].append(name)
            case ["val", wnid, *_]:
                test[wnid].append(name)
    for part, found in (("train", train), ("val", test)):
        for wnid in found.keys() - set(wnids):
            raise DataError(f"{tree.where}: {part}/{wnid} is not one of the classes in wnids.txt")
        for wnid in wnids:
            if not found[wnid]:
                raise DataError(f"{tree.where}: {part} has no image of class {wnid}")
    parts = (_read(tree, [part[wnid] for wnid in wnids]) for part in (train, test))
    (x_train, y_train), (x_test, y_test) = parts
    return Decoded.of(x_train, y_train, x_test, y_test, class_names=_class_names(tree, wnids))


def _read(tree: Tree, by_class: list[list[str]]) -> tuple[Array, Array]:
    labels = np.repeat(np.arange(len(by_class)), [len(names) for names in by_class])
    pixels = np.empty((len(labels), 3, _SIDE, _SIDE), np.uint8)
    for sample, name in zip(pixels, (name for names in by_class for name in names), strict=True):
        image = decode_image(tree.read(name), f"{tree.where}: {name}", colour=True)
        if image.shape[:2] != (_SIDE, _SIDE):
            raise DataError(f"{tree.where}: {name} has {image.shape[0]}x{image.shape[1]} pixels, not {_SIDE}x{_SIDE}")
        sample[...] = image.transpose(2, 0, 1)
    return pixels, labels


def _annotations(tree: Tree, wnids: set[str]) -> dict[str, str]:
    """Class of every validation image, by file name."""
    if "val/val_annotations.txt" not in tree.names:
        return {}
    annotated = {}
    for number, line in enumerate(_lines(tree, "val/val_annotations.txt"), 1):
        file, _, rest = line.partition("\t")
        wnid = rest.partition("\t")[0]
        if wnid not in wnids:
            raise DataError(
                f"{tree.where}: val/val_annotations.txt line {number} names no class of wnids.txt: {wnid!r}"
            )
        annotated[file] = wnid
    return annotated


def _class_names(tree: Tree, wnids: list[str]) -> list[str]:
    """The first word for every class, where words.txt has one."""
    if "words.txt" not in tree.names:
        return wnids
    words: dict[str, str] = dict(line.partition("\t")[::2] for line in _lines(tree, "words.txt"))
    return [words.get(wnid, wnid).partition(",")[0].strip() or wnid for wnid in wnids]


def _lines(tree: Tree, name: str) -> list[str]:
    if name not in tree.names:
        raise DataError(f"{tree.where} lacks {name}")
    return [line for line in tree.read(name).decode("utf-8", "replace").splitlines() if line.strip()]
