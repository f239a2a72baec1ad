"""Tiny data sets in the real files' formats, written from the formats' descriptions; every class is there.

Each writer makes noise of the right shape: what is tested is reading and running, not learning.
"""

from __future__ import annotations

import bz2
import gzip
import pickle
import struct
import tarfile
from io import BytesIO
from pathlib import Path

import numpy as np
from scipy.io import savemat


def noise(*shape: int) -> np.ndarray:
    return np.random.RandomState(0).randint(0, 256, shape, dtype=np.uint8)


def write_mnist(folder: Path, train: int = 24, test: int = 10) -> None:
    """IDX files, gzipped: big-endian magic (type 8, number of axes), sizes, bytes."""
    for part, count in (("train", train), ("t10k", test)):
        labels = (np.arange(count) % 10).astype(np.uint8)
        if part == "train":  # the first ten labels tell MNIST from Fashion-MNIST
            labels[:10] = [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
        for kind, array in (("images-idx3", noise(count, 28, 28)), ("labels-idx1", labels)):
            head = struct.pack(">I", 0x0800 + array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
            (folder / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(head + array.tobytes()))


def write_cifar10(folder: Path, train: int = 20, test: int = 4) -> None:
    """The binary version, five training files and one for testing: records of a label byte and 3072 pixel bytes."""
    inner = folder / "cifar-10-batches-bin"
    inner.mkdir()
    for number, name in enumerate((*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin")):
        count = test if name == "test_batch.bin" else train // 5
        rows = noise(count, 3073)
        rows[:, 0] = (np.arange(count) + number * count) % 10
        (inner / name).write_bytes(rows.tobytes())


def write_cifar100(folder: Path, train: int = 24, test: int = 8) -> None:
    """The python version: a tar of pickles with bytes for keys."""
    with tarfile.open(folder / "cifar-100-python.tar.gz", "w:gz") as archive:
        for name, count in (("train", train), ("test", test)):
            batch = {
                b"data": noise(count, 3072),
                b"fine_labels": (np.arange(count) % 100).tolist(),
                b"coarse_labels": [0] * count,
            }
            content = pickle.dumps(batch, protocol=2)
            entry = tarfile.TarInfo(f"cifar-100-python/{name}")
            entry.size = len(content)
            archive.addfile(entry, BytesIO(content))


def write_tiny(folder: Path, train: int = 18, classes: int = 3) -> None:
    """Folders of JPEG files; validation images in one folder, told apart by a list."""
    from PIL import Image

    root = folder / "tiny-imagenet-200"
    names = [f"n{number:03}" for number in range(classes)]
    (root / "val" / "images").mkdir(parents=True)
    (root / "wnids.txt").write_text("\n".join(names))
    rows = []
    for label in names:
        (root / "train" / label / "images").mkdir(parents=True)
        for number, pixels in enumerate(noise(train // classes, 64, 64, 3)):
            image = Image.fromarray(pixels)
            image.save(root / "train" / label / "images" / f"{label}_{number}.JPEG")
        image.save(root / "val" / "images" / f"val_{label}.JPEG")
        rows.append(f"val_{label}.JPEG\t{label}\t0\t0\t62\t62")
    (root / "val" / "val_annotations.txt").write_text("\n".join(rows))


def write_news(folder: Path, train: int = 24, test: int = 8) -> None:
    """Quoted csv: class 1..4, title, description."""
    words = ["oil", "game", "stock", "chip", "team", "bank", "star", "byte"]
    for name, count in (("train.csv", train), ("test.csv", test)):
        rows = [
            f'"{k % 4 + 1}","The {words[k % 8]}","A ""{words[k % 5]}"" told of, {words[k % 3]}."' for k in range(count)
        ]
        (folder / name).write_text("\n".join(rows) + "\n")


def write_svhn(folder: Path, train: int = 24, test: int = 8, prefix: str = "") -> None:
    """MATLAB files: pixels (row, column, channel, sample), zero written as 10."""
    for name, count in (("train", train), ("test", test)):
        labels = (np.arange(count) % 10 + 1).reshape(-1, 1)
        savemat(folder / f"{prefix}{name}_32x32.mat", {"X": noise(32, 32, 3, count), "y": labels})


def write_usps(folder: Path, train: int = 24, test: int = 8) -> None:
    """LIBSVM lines, packed: a label 1..10 and the 256 pixels from -1 to 1 by number."""
    for name, count in (("usps", train), ("usps.t", test)):
        pixels = noise(count, 256) / 127.5 - 1
        lines = [
            f"{k % 10 + 1} " + " ".join(f"{at}:{value:.4f}" for at, value in enumerate(row, 1))
            for k, row in enumerate(pixels)
        ]
        (folder / f"{name}.bz2").write_bytes(bz2.compress(("\n".join(lines) + "\n").encode()))


def write_syn_digits(folder: Path, train: int = 24, test: int = 8) -> None:
    """Laid out as those of SVHN."""
    write_svhn(folder, train, test, prefix="synth_")


WRITERS = {
    "mnist": write_mnist,
    "cifar10": write_cifar10,
    "cifar100": write_cifar100,
    "tiny-imagenet": write_tiny,
    "ag-news": write_news,
    "svhn": write_svhn,
    "usps": write_usps,
    "syn-digits": write_syn_digits,
}
