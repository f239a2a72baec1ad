"""Images of one's own: a folder with one folder of images per class."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np

from ..errors import DataError
from .archives import FolderTree
from .arrays import Array
from .cache import Decoded, Found
from .federated import FederatedData
from .holdout import held_out
from .images import ENDINGS, decode_image, is_image, parse_size, pillow, to_samples
from .sources import assemble

_TESTS = ("test", "val")


def load_folder(path: str, size: int | str | None = None, class_names: str | None = None) -> FederatedData:
    """Your own images, classes by folder: PATH/train/CLASS/*.png and PATH/test/CLASS/*.png, or PATH/CLASS/*.png.

    Classes are numbered in the alphabetical order of their folders, images taken in the order of their names (png, jpg,
    jpeg, bmp). PATH/val serves where there is no PATH/test. Without either, a fifth of each class is for testing,
    chosen by a hash of the images' names. Images are grey (1 channel) if all are, else RGB. Reading needs Pillow.
    size: bring all images to this many pixels, a number or height x width as in 48x64 (bilinear; proportions are not
        kept). Without it they must all have the same size.
    class_names: the classes in order, separated by commas, where this folder may lack some: data of one site of many.
    """
    root = Path(path).expanduser().absolute()
    shape = parse_size(size)
    known = [name.strip() for name in class_names.split(",")] if class_names else None
    tree = FolderTree.of(root)

    def decode() -> Decoded:
        return _decode(tree, shape, known)

    values = {"size": None if shape is None else list(shape), **({"class_names": known} if known else {})}
    found = Found("folder", root, tree.stamps, decode, values=values)
    return assemble(found, root.name, mean=0.5, std=0.5)


def _decode(tree: FolderTree, size: tuple[int, int] | None, known: list[str] | None) -> Decoded:
    pillow(f"{tree.where}")
    test_folder = next((one for one in _TESTS if any(name.startswith(one + "/") for name in tree.names)), None)
    train = read_classes(tree, "train")
    if train and test_folder is None:
        raise DataError(f"{tree.where} has train/ but no test/ with a folder per class")
    test = read_classes(tree, test_folder) if train and test_folder else {}
    if not train:
        train = read_classes(tree, "")
    classes = known or sorted(train)
    if len(classes) < 2 or not train:
        kinds = ", ".join(ENDINGS)
        raise DataError(f"{tree.where} must have a folder of images ({kinds}) for each of at least two classes")
    for extra in sorted((train.keys() | test.keys()) - set(classes)):
        if known:
            raise DataError(f"{tree.where}: class {extra!r} is not one of class_names = {','.join(known)}")
        raise DataError(f"{tree.where}: class {extra!r} is in {test_folder}/ but not in train/")
    names = [name for label in classes for name in train.get(label, ())]
    labels = np.repeat(np.arange(len(classes)), [len(train.get(label, ())) for label in classes])
    if test:
        names += [name for label in classes for name in test.get(label, ())]
        test_labels = np.repeat(np.arange(len(classes)), [len(test.get(label, ())) for label in classes])
        is_test = np.arange(len(names)) >= len(labels)
        labels = np.concatenate([labels, test_labels])
    else:
        is_test = held_out(labels, names)
    if not is_test.any():
        raise DataError(f"{tree.where}: there is no image to test on")
    x = read_images(tree, names, size)
    return Decoded.of(x[~is_test], labels[~is_test], x[is_test], labels[is_test], class_names=classes)


def read_classes(tree: FolderTree, part: str) -> dict[str, list[str]]:
    """Names of the images of every class below `part`; a class whose folder has no image is an error."""
    start = f"{part}/" if part else ""
    classes: dict[str, list[str]] = defaultdict(list)
    for name in sorted(tree.names):
        match name.removeprefix(start).split("/"):
            case [label, _] if name.startswith(start):
                classes[label] += [name] if is_image(name) else []
    for label, names in classes.items():
        if not names:
            raise DataError(f"{tree.where / part / label} has no image ({', '.join(ENDINGS)})")
    return dict(classes)


def read_images(tree: FolderTree, names: list[str], size: tuple[int, int] | None, colour: bool = False) -> Array:
    """These images, all of one size."""
    places = [str(tree.where / name) for name in names]
    images = [decode_image(tree.read(name), at, colour) for name, at in zip(names, places, strict=True)]
    return to_samples(images, places, size)
