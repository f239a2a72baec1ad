import shutil

import numpy as np
import pytest

from fedvls.data import DATASETS, load_dataset, mnist
from fedvls.errors import DataError

PLACES = {
    "mnist": ["mnist", "MNIST/raw", "."],
    "fashion-mnist": ["fashion-mnist", "FashionMNIST/raw", "."],
}


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """A file that is not found must fail the test, not reach for the network."""

    def refuse(files, base_urls, into, dataset):
        raise AssertionError(f"would download {', '.join(files)} into {into}")

    monkeypatch.setattr(mnist, "fetch", refuse)


@pytest.mark.parametrize(("name", "place"), [(name, place) for name, places in PLACES.items() for place in places])
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("dotted", [True, False])
def test_files_are_found_in_every_layout(tmp_path, images, write_images, name, place, packed, dotted):
    write_images(tmp_path / place, packed, dotted)
    data = load_dataset(name, data_dir=tmp_path)
    assert data.name == name
    assert data.x_train.shape == (20, 1, 28, 28)
    assert data.x_train.dtype == np.uint8
    assert np.array_equal(data.x_test[:, 0], images["t10k-images-idx3-ubyte"])
    assert np.array_equal(data.y_train, images["train-labels-idx1-ubyte"])
    assert data.mean == data.std == (0.5,)
    assert data.spec == {"name": name, "data_dir": str(tmp_path)}


def test_spec_loads_the_same_data_from_elsewhere(tmp_path, write_images, monkeypatch):
    write_images(tmp_path / "mnist")
    monkeypatch.chdir(tmp_path)
    data = load_dataset("mnist", data_dir=".")
    monkeypatch.chdir("/")
    assert load_dataset(**data.spec).fingerprint == data.fingerprint


@pytest.mark.parametrize(("variable", "below"), [("FEDVLS_DATA_DIR", "mnist"), ("XDG_CACHE_HOME", "fedvls/mnist")])
def test_environment_names_the_default_folder(tmp_path, write_images, monkeypatch, variable, below):
    monkeypatch.delenv("FEDVLS_DATA_DIR", raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    write_images(tmp_path / below)
    data = load_dataset("mnist")
    assert len(data.y_train) == 20
    assert data.spec == {"name": "mnist"}


def test_home_cache_is_the_last_default(tmp_path, write_images, monkeypatch):
    monkeypatch.delenv("FEDVLS_DATA_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    write_images(tmp_path / ".cache" / "fedvls" / "mnist")
    assert len(load_dataset("mnist").y_train) == 20


def test_named_folder_goes_before_loose_files(tmp_path, images, write_images):
    write_images(tmp_path)
    images["train-labels-idx1-ubyte"] = images["train-labels-idx1-ubyte"][::-1].copy()
    write_images(tmp_path / "mnist")
    assert load_dataset("mnist", data_dir=tmp_path).y_train[0] == 9


def test_clothes_have_names_and_digits_numbers(tmp_path, write_images):
    write_images(tmp_path)
    clothes = load_dataset("fashion-mnist", data_dir=tmp_path).class_names
    assert clothes[0] == "T-shirt/top"
    assert clothes[9] == "Ankle boot"
    assert load_dataset("mnist", data_dir=tmp_path).class_names == tuple("0123456789")


@pytest.mark.parametrize(("wanted", "there"), [("mnist", mnist.FASHION_MNIST), ("fashion-mnist", mnist.MNIST)])
def test_files_of_the_other_set_are_refused(tmp_path, images, write_images, wanted, there):
    """Both sets use the same file names; the first labels of the real files tell them apart."""
    images["train-labels-idx1-ubyte"][:10] = there.first_labels
    write_images(tmp_path)
    with pytest.raises(DataError, match=f"train-labels-idx1-ubyte.gz belongs to {there.name}: {wanted} needs its own"):
        load_dataset(wanted, data_dir=tmp_path)
    assert load_dataset(there.name, data_dir=tmp_path).classes == 10


def test_an_incomplete_folder_asks_only_for_what_is_missing(tmp_path, write_images):
    write_images(tmp_path / "mnist", packed=False)
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(AssertionError, match=f"would download t10k-labels-idx1-ubyte.gz into {tmp_path}/mnist"):
        DATASETS.build("mnist", data_dir=str(tmp_path))


def test_a_damaged_file_is_named_with_what_to_do(tmp_path, write_images):
    path = write_images(tmp_path / "mnist") / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz is damaged: .*; replace it, or delete it"):
        load_dataset("mnist", data_dir=tmp_path)


def test_images_and_labels_must_belong_together(tmp_path, images, write_images):
    images["t10k-labels-idx1-ubyte"] = images["t10k-labels-idx1-ubyte"][:-1]
    write_images(tmp_path / "mnist")
    with pytest.raises(DataError, match=r"mnist in .*: x_test has 10 samples but y_test has 9 labels"):
        load_dataset("mnist", data_dir=tmp_path)


def test_files_under_each_others_names_are_told(tmp_path, write_images):
    folder = write_images(tmp_path / "mnist")
    shutil.copy(folder / "train-labels-idx1-ubyte.gz", folder / "train-images-idx3-ubyte.gz")
    with pytest.raises(DataError, match=r"train-images.* holds uint8 of shape \(20,\): expected uint8 images of 28x28"):
        load_dataset("mnist", data_dir=tmp_path)


def test_a_label_beyond_nine_is_named(tmp_path, images, write_images):
    images["train-labels-idx1-ubyte"][3] = 10
    write_images(tmp_path / "mnist")
    with pytest.raises(DataError, match=r"y_train\[3\] = 10 is outside 0\.\.9"):
        load_dataset("mnist", data_dir=tmp_path)
