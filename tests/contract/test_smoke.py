"""Every method trains every kind of model for a round, on tiny data in each data set's real file format."""

from __future__ import annotations

import gzip
import pickle
import struct
import tarfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

import fedvls
from fedvls import methods  # noqa: F401  (registers them)
from fedvls.method import METHODS

NAMES = [entry.name for entry in METHODS if entry.build.__module__.startswith("fedvls.")]
random = np.random.RandomState(0)


def write_mnist(folder: Path) -> None:
    """IDX files, gzipped: big-endian magic (type 8, number of axes), sizes, bytes."""
    for part, count in (("train", 24), ("t10k", 10)):
        images = random.randint(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = (np.arange(count) % 10).astype(np.uint8)
        if part == "train":  # the first ten labels tell MNIST from Fashion-MNIST
            labels[:10] = [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            head = struct.pack(">I", 0x0800 + array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
            (folder / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(head + array.tobytes()))


def write_cifar10(folder: Path) -> None:
    """The binary version: records of a label byte and 3072 pixel bytes."""
    inner = folder / "cifar-10-batches-bin"
    inner.mkdir()
    for name in (*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin"):
        rows = random.randint(0, 256, (4, 3073), dtype=np.uint8)
        rows[:, 0] = random.randint(0, 10, 4)
        (inner / name).write_bytes(rows.tobytes())


def write_cifar100(folder: Path) -> None:
    """The python version: a tar of pickles with bytes for keys."""
    with tarfile.open(folder / "cifar-100-python.tar.gz", "w:gz") as archive:
        for name, count in (("train", 24), ("test", 8)):
            batch = {
                b"data": random.randint(0, 256, (count, 3072), dtype=np.uint8),
                b"fine_labels": random.randint(0, 100, count).tolist(),
                b"coarse_labels": [0] * count,
            }
            content = pickle.dumps(batch, protocol=2)
            entry = tarfile.TarInfo(f"cifar-100-python/{name}")
            entry.size = len(content)
            archive.addfile(entry, BytesIO(content))


def write_tiny(folder: Path) -> None:
    """Folders of JPEG files; validation images in one folder, told apart by a list."""
    from PIL import Image

    root = folder / "tiny-imagenet-200"
    classes = ["n001", "n002", "n003"]
    (root / "val" / "images").mkdir(parents=True)
    (root / "wnids.txt").write_text("\n".join(classes))
    rows = []
    for label in classes:
        (root / "train" / label / "images").mkdir(parents=True)
        for number in range(6):
            image = Image.fromarray(random.randint(0, 256, (64, 64, 3), dtype=np.uint8))
            image.save(root / "train" / label / "images" / f"{label}_{number}.JPEG")
        image.save(root / "val" / "images" / f"val_{label}.JPEG")
        rows.append(f"val_{label}.JPEG\t{label}\t0\t0\t62\t62")
    (root / "val" / "val_annotations.txt").write_text("\n".join(rows))


def write_news(folder: Path) -> None:
    """Quoted csv: class 1..4, title, description."""
    words = ["oil", "game", "stock", "chip", "team", "bank", "star", "byte"]
    for name, count in (("train.csv", 24), ("test.csv", 8)):
        rows = [
            f'"{k % 4 + 1}","The {words[k % 8]}","A ""{words[k % 5]}"" told of, {words[k % 3]}."' for k in range(count)
        ]
        (folder / name).write_text("\n".join(rows) + "\n")


def write_svhn(folder: Path) -> None:
    """MATLAB files: pixels (row, column, channel, sample), zero written as 10."""
    for name, count in (("train", 24), ("test", 8)):
        pixels = random.randint(0, 256, (32, 32, 3, count), dtype=np.uint8)
        savemat(folder / f"{name}_32x32.mat", {"X": pixels, "y": (np.arange(count) % 10 + 1).reshape(-1, 1)})


WRITERS = {
    "mnist": write_mnist,
    "cifar10": write_cifar10,
    "cifar100": write_cifar100,
    "tiny-imagenet": write_tiny,
    "ag-news": write_news,
    "svhn": write_svhn,
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """`data(name)`: a data set read from files written for this test."""
    loaded: dict[str, fedvls.FederatedData] = {}

    def load(name: str) -> fedvls.FederatedData:
        if name not in loaded:
            folder = tmp_path_factory.mktemp(name)
            WRITERS[name](folder)
            loaded[name] = fedvls.load_dataset(name, data_dir=folder)
        return loaded[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDVLS_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield load


def one_round(data: fedvls.FederatedData, method: str, model: object, **more: object) -> fedvls.Result:
    values = {"classifier_rounds": 1} if method == "fedconcat" else {}
    fed = fedvls.Federation(data, partition=fedvls.iid(), clients=2, model=model, device="cpu", **more)
    return fed.run(fedvls.get_method(method, **values), rounds=1, epochs=1, batch_size=12, out=None)


@pytest.mark.parametrize(("dataset", "model"), [("mnist", "mlp"), ("cifar10", "mobilenetv2"), ("ag-news", "fasttext")])
@pytest.mark.parametrize("method", NAMES)
def test_every_method_trains_images_and_text(data, method, dataset, model):
    result = one_round(data(dataset), method, model)
    assert 0 <= result.last <= 1
    assert result.header["augmentation"]["name"] == ("cifar" if dataset == "cifar10" else "none")
    assert not any(r["left_out"] for r in result.records)


@pytest.mark.parametrize(
    ("dataset", "model", "augmentation"),
    [
        ("cifar100", {"name": "resnet32"}, "auto"),
        ("tiny-imagenet", {"name": "cnn"}, "auto"),
        ("svhn", {"name": "resnet10"}, "crop-flip"),
        ("cifar10", {"name": "resnet18", "stem": "cifar"}, {"name": "autoaugment", "variant": "binned"}),
        ("ag-news", {"name": "textcnn"}, "none"),
    ],
)
def test_every_other_data_set_and_model_trains_too(data, dataset, model, augmentation):
    fed = data(dataset)
    assert 0 <= one_round(fed, "fedvls", model, augmentation=augmentation).last <= 1


def test_augmented_runs_repeat_to_the_bit_and_differ_by_seed(data):
    first, again, other = (
        one_round(data("cifar10"), "fedavg", "cnn", seed=seed, model_seed=0, partition_seed=0).weights.params
        for seed in (0, 0, 1)
    )
    assert all((first[k] == again[k]).all() for k in first)
    assert any((first[k] != other[k]).any() for k in first)
