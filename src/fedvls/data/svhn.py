"""Street View House Numbers and synthetic digits: the same MATLAB layout, and folders of images for the latter."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from ..errors import DataError
from .archives import FolderTree
from .arrays import Array, one_line
from .cache import Decoded, Found, stamps_of
from .download import data_folder, fetch
from .federated import FederatedData
from .folder import read_classes, read_images
from .sources import REPLACE, assemble, first_place
from .usps import DIGITS

FILES = ("train_32x32.mat", "test_32x32.mat")
CHECKSUMS = ("md5:e26dedcc434d2e4c54c9b2d4a06d8373", "md5:eb5a983be6a315427106f1b164d9cef3")
BASE_URLS = ("http://ufldl.stanford.edu/housenumbers/",)
PUBLISHED = (73_257, 26_032)

SYNTHETIC_FILES = ("synth_train_32x32.mat", "synth_test_32x32.mat")
SYNTHETIC_FOLDERS = (("train", "test"), ("imgs_train", "imgs_valid"))


def load_svhn(data_dir: str | None = None) -> FederatedData:
    """House numbers, 10 classes: 73,257 training and 26,032 test images of 3x32x32 (downloaded once, 246 MB).

    The cropped digits; the "extra" images are not used. The file's label 10 is the digit 0.
    """
    return assemble(find_svhn(data_folder(data_dir)), "svhn", PUBLISHED, class_names=DIGITS, mean=0.5, std=0.5)


def load_syn_digits(data_dir: str | None = None) -> FederatedData:
    """Synthetic digits, 10 classes: images of 3x32x32 from files you have (there is no public download).

    Either synth_train_32x32.mat and synth_test_32x32.mat, laid out as those of SVHN, or folders of images
    train/DIGIT/ and test/DIGIT/ (also imgs_train/ and imgs_valid/), which are brought to 32x32 (needs Pillow).
    """
    return assemble(find_syn_digits(data_folder(data_dir)), "syn-digits", class_names=DIGITS, mean=0.5, std=0.5)


def find_svhn(folder: Path) -> Found:
    """The two files, downloaded if they are not there."""
    into = folder / "svhn"
    paths = first_place((into, folder), [(file,) for file in FILES])
    if paths is None:
        missing = {
            file: checksum for file, checksum in zip(FILES, CHECKSUMS, strict=True) if not (into / file).is_file()
        }
        fetch(missing, BASE_URLS, into, "svhn")
        paths = [into / file for file in FILES]
    return _matlab("svhn", paths, REPLACE)


def find_syn_digits(folder: Path) -> Found:
    """Either form of the synthetic digits, or an error that says what goes where."""
    into = folder / "syn-digits"
    paths = first_place((into, folder), [(file,) for file in SYNTHETIC_FILES])
    if paths is not None:
        return _matlab("syn-digits", paths, "")
    for parts in SYNTHETIC_FOLDERS:
        if all((into / part).is_dir() for part in parts):
            tree = FolderTree.of(into, below=parts)
            return Found("syn-digits", into, tree.stamps, partial(_decode_folders, tree, parts))
    raise DataError(
        f"syn-digits is not on this machine and has no public download: put {', '.join(SYNTHETIC_FILES)} "
        f"(or folders train/0 to train/9 and test/0 to test/9 of images) into {into} or name their folder with "
        "--data-dir"
    )


def _matlab(name: str, paths: Sequence[Path], remedy: str) -> Found:
    train, test = paths

    def decode() -> Decoded:
        return Decoded.of(*_read(train), *_read(test))

    return Found(name, train.parent, stamps_of(paths), decode, remedy=remedy)


def _read(path: Path) -> tuple[Array, Array]:
    """X of shape (32, 32, 3, n) and y of n labels, in which 10 stands for the digit 0."""
    from scipy.io import loadmat

    content = io.BytesIO(path.read_bytes())
    try:
        held = loadmat(content, variable_names=("X", "y"))
    except Exception as error:  # a damaged file makes the reader raise many things
        raise DataError(f"{path} is not a complete MATLAB file (version 5): {one_line(error)}") from None
    if "X" not in held or "y" not in held:
        raise DataError(f"{path} lacks X or y")
    pixels, labels = held["X"], held["y"].reshape(-1)
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[:3] != (32, 32, 3):
        raise DataError(f"{path}: X is {pixels.dtype} of shape {pixels.shape}, expected uint8 of (32, 32, 3, n)")
    if len(labels) != pixels.shape[3]:
        raise DataError(f"{path} has {pixels.shape[3]} images but {len(labels)} labels")
    known = np.isin(labels, np.arange(11))
    if not known.all():
        odd = int(np.argmin(known))
        raise DataError(f"{path}: image {odd} has label {labels[odd]}, not one of 0 to 10")
    return np.ascontiguousarray(pixels.transpose(3, 2, 0, 1)), labels.astype(np.int64) % 10


def _decode_folders(tree: FolderTree, parts: Sequence[str]) -> Decoded:
    arrays: dict[str, Array] = {}
    for part, folder in zip(("train", "test"), parts, strict=True):
        classes = read_classes(tree, folder)
        for label in sorted(classes.keys() - set(DIGITS)):
            raise DataError(f"{tree.where / folder / label} is not a digit: folders must be named 0 to 9")
        for label in sorted(set(DIGITS) - classes.keys()):
            raise DataError(f"{tree.where / folder} has no folder {label} with images")
        names = [name for label in DIGITS for name in classes[label]]
        arrays[f"x_{part}"] = read_images(tree, names, (32, 32), colour=True)
        arrays[f"y_{part}"] = np.repeat(np.arange(10), [len(classes[label]) for label in DIGITS])
    return Decoded(arrays)
