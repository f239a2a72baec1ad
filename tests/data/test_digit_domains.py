"""USPS, SVHN and synthetic digits, and the domains they make together with MNIST."""

import bz2

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from fedvls.data import load_dataset, mnist, svhn
from fedvls.data.domains import bilinear
from fedvls.errors import DataError, UsageError

LABELS = np.arange(10)


@pytest.fixture
def shades():
    return np.random.RandomState(8)


def libsvm(values, labels):
    """Lines of the published format: labels and indices from 1, zeros left out."""
    lines = []
    for row, label in zip(values.reshape(len(values), -1), labels, strict=True):
        lines.append(f"{label + 1} " + " ".join(f"{at + 1}:{value:.6g}" for at, value in enumerate(row) if value))
    return ("\n".join(lines) + "\n").encode()


@pytest.fixture
def write_usps(shades):
    def write(folder, packed=True):
        folder.mkdir(parents=True, exist_ok=True)
        truth = {}
        for file in ("usps", "usps.t"):
            values = np.round(shades.uniform(-1, 1, (10, 16, 16)), 3)
            values[0, 0, :3] = -1, 0, 1
            truth[file] = values
            content = libsvm(values, LABELS)
            (folder / (file + ".bz2" if packed else file)).write_bytes(bz2.compress(content) if packed else content)
        return truth

    return write


@pytest.fixture
def write_mat(shades):
    def write(folder, names=("train_32x32.mat", "test_32x32.mat"), zero=10):
        folder.mkdir(parents=True, exist_ok=True)
        truth = {}
        for name in names:
            images = shades.randint(0, 256, (10, 3, 32, 32)).astype(np.uint8)
            labels = np.where(LABELS == 0, zero, LABELS).astype(np.uint8)
            savemat(folder / name, {"X": images.transpose(2, 3, 1, 0), "y": labels[:, None]}, do_compression=True)
            truth[name] = images
        return truth

    return write


SYNTHETIC = ("synth_train_32x32.mat", "synth_test_32x32.mat")


@pytest.mark.parametrize("place", ["usps", "."])
@pytest.mark.parametrize("packed", [True, False])
def test_usps_is_read(tmp_path, write_usps, place, packed):
    truth = write_usps(tmp_path / place, packed)
    data = load_dataset("usps", data_dir=tmp_path)
    assert data.x_train.shape == (10, 1, 16, 16)
    assert data.x_train.dtype == np.uint8
    assert data.x_train[0, 0, 0, :3].tolist() == [0, 128, 255]  # -1, 0 (left out of the file) and 1
    assert np.abs(data.x_test[:, 0] / 127.5 - 1 - truth["usps.t"]).max() <= 0.5 / 127.5 + 1e-9
    assert data.y_train.tolist() == LABELS.tolist()
    assert data.class_names == tuple("0123456789")
    assert data.mean == data.std == (0.5,)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"1 2:x\n", "is not in the LIBSVM format"),
        (b"1 300:0.5\n", "is not in the LIBSVM format"),
        (b"1 0:0.5\n", "is not in the LIBSVM format"),
        (b"hello\n", "is not in the LIBSVM format"),
        (b"0 1:0.5\n", "sample 0 has label 0, not one of 1 to 10"),
        (b"1 1:0.5\n11 1:0.5\n", "sample 1 has label 11"),
        (b"1 1:2.5\n", "values go from 0 to 2.5, expected -1 to 1"),
        (b"1 1:nan\n", "values go from nan"),
        (b"", "has no sample"),
        (bz2.compress(b"1 1:0.5\n" * 99)[:-4], "is damaged"),
        (b"BZh9 not really", "is damaged"),
    ],
)
def test_a_bad_usps_file_is_named(tmp_path, write_usps, content, words):
    write_usps(tmp_path)
    (tmp_path / "usps.t.bz2").write_bytes(content)
    with pytest.raises(DataError, match=rf"usps\.t\.bz2:? {words}[^\n]*; replace it, or delete it"):
        load_dataset("usps", data_dir=tmp_path)


@pytest.mark.parametrize("place", ["svhn", "."])
def test_svhn_is_read_and_its_ten_is_zero(tmp_path, write_mat, place):
    truth = write_mat(tmp_path / place)
    data = load_dataset("svhn", data_dir=tmp_path)
    assert np.array_equal(data.x_train, truth["train_32x32.mat"])
    assert np.array_equal(data.x_test, truth["test_32x32.mat"])
    assert data.y_train.tolist() == LABELS.tolist()
    assert data.mean == (0.5, 0.5, 0.5)


def test_what_is_downloaded_is_read_from_where_it_was_put(tmp_path, write_mat, monkeypatch):
    monkeypatch.setattr(svhn, "fetch", lambda wanted, urls, into, name: write_mat(into, tuple(wanted)))
    assert load_dataset("svhn", data_dir=tmp_path).y_train.tolist() == LABELS.tolist()


X = np.zeros((32, 32, 3, 2), np.uint8)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"X": X}, "lacks X or y"),
        ({"X": X[:9], "y": [1, 2]}, r"X is uint8 of shape \(9, 32, 3, 2\), expected"),
        ({"X": X.astype(float), "y": [1, 2]}, "X is float64"),
        ({"X": X, "y": [1, 2, 3]}, "has 2 images but 3 labels"),
        ({"X": X, "y": [1, 11]}, "image 1 has label 11, not one of 0 to 10"),
        (b"no matlab", "is not a complete MATLAB file"),
        (b"", "is not a complete MATLAB file"),
    ],
)
def test_a_bad_matlab_file_is_named(tmp_path, write_mat, content, words):
    write_mat(tmp_path)
    path = tmp_path / "test_32x32.mat"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        savemat(path, content)
    with pytest.raises(DataError, match=rf"test_32x32\.mat:? {words}[^\n]*; replace it"):
        load_dataset("svhn", data_dir=tmp_path)


def test_a_cut_matlab_file_is_told(tmp_path, write_mat):
    write_mat(tmp_path)
    path = tmp_path / "train_32x32.mat"
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(DataError, match=r"train_32x32\.mat is not a complete MATLAB file[^\n]*$"):
        load_dataset("svhn", data_dir=tmp_path)


@pytest.mark.parametrize("place", ["syn-digits", "."])
@pytest.mark.parametrize("zero", [0, 10])
def test_synthetic_digits_are_read_from_matlab_files(tmp_path, write_mat, place, zero):
    truth = write_mat(tmp_path / place, SYNTHETIC, zero)
    data = load_dataset("syn-digits", data_dir=tmp_path)
    assert np.array_equal(data.x_test, truth["synth_test_32x32.mat"])
    assert data.y_test.tolist() == LABELS.tolist()


def write_digit_folders(root, parts=("train", "test"), size=32):
    for part in parts:
        for digit in range(10):
            path = root / part / str(digit) / "a.png"
            path.parent.mkdir(parents=True)
            Image.new("RGB", (size, size), (20 * digit, 0, 255)).save(path)


@pytest.mark.parametrize("parts", [("train", "test"), ("imgs_train", "imgs_valid")])
@pytest.mark.parametrize("size", [32, 40])
def test_synthetic_digits_are_read_from_folders_of_images(tmp_path, parts, size):
    write_digit_folders(tmp_path / "syn-digits", parts, size)
    data = load_dataset("syn-digits", data_dir=tmp_path)
    assert data.x_train.shape == (10, 3, 32, 32)
    assert data.y_train.tolist() == LABELS.tolist()
    assert data.x_train[:, 0, 9, 9].tolist() == (20 * LABELS).tolist()


def test_folders_that_are_not_the_ten_digits_are_told(tmp_path):
    root = tmp_path / "syn-digits"
    write_digit_folders(root)
    (root / "test" / "9").rename(root / "test" / "nine")
    with pytest.raises(DataError, match="test/nine is not a digit: folders must be named 0 to 9"):
        load_dataset("syn-digits", data_dir=tmp_path)
    (root / "test" / "nine" / "a.png").unlink()
    with pytest.raises(DataError, match="test has no folder 9 with images"):
        load_dataset("syn-digits", data_dir=tmp_path)


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("usps", "usps.bz2, usps.t.bz2"),
        ("svhn", "train_32x32.mat, test_32x32.mat"),
        ("syn-digits", "synth_train_32x32.mat, synth_test_32x32.mat (or folders"),
    ],
)
def test_what_is_missing_offline_is_named_with_its_place(tmp_path, offline, name, files):
    with pytest.raises(DataError) as caught:
        load_dataset(name, data_dir=tmp_path)
    message = str(caught.value)
    assert message.startswith(f"{name} is not on this machine and ")
    assert f"put {files}" in message
    assert f"into {tmp_path}/{name} or name their folder with --data-dir" in message
    assert "\n" not in message


@pytest.fixture
def four(tmp_path, write_images, write_usps, write_mat):
    """All four domains in one folder of data: 20 + 10 + 10 + 10 training images."""
    write_images(tmp_path / "mnist")
    write_usps(tmp_path / "usps")
    write_mat(tmp_path / "svhn")
    write_mat(tmp_path / "syn-digits", SYNTHETIC)
    return tmp_path


def test_four_domains_are_joined_with_a_label_for_each_sample(four, images):
    data = load_dataset("digits-domains", data_dir=four)
    assert data.domains == ("mnist", "usps", "svhn", "syn-digits")
    assert data.x_train.shape == (50, 3, 32, 32)
    assert data.x_train.dtype == np.uint8
    assert np.bincount(data.domain_train).tolist() == [20, 10, 10, 10]
    assert np.bincount(data.domain_test).tolist() == [10, 10, 10, 10]
    for number, name in enumerate(data.domains):
        alone = load_dataset(name, data_dir=four)
        for part in ("train", "test"):
            mine = getattr(data, f"domain_{part}") == number
            assert getattr(data, f"y_{part}")[mine].tolist() == getattr(alone, f"y_{part}").tolist()
            expected = np.broadcast_to(bilinear(getattr(alone, f"x_{part}"), 32), (mine.sum(), 3, 32, 32))
            assert np.array_equal(getattr(data, f"x_{part}")[mine], expected)
    assert data.mean == data.std == (0.5, 0.5, 0.5)
    assert data.describe()["domains"]["usps"] == {"train_samples": 10, "test_samples": 10}
    assert load_dataset(**data.spec).fingerprint == data.fingerprint


def test_some_domains_can_be_chosen_and_ordered(four):
    data = load_dataset("digits-domains", data_dir=four, domains=" usps, mnist")
    assert data.domains == ("usps", "mnist")
    assert load_dataset("digits-domains", data_dir=four, domains=["usps", "mnist"]).fingerprint == data.fingerprint
    assert np.bincount(data.domain_train).tolist() == [10, 20]


def test_a_domain_that_is_missing_can_be_left_out(four, offline):
    (four / "svhn" / "test_32x32.mat").unlink()
    words = r"^svhn is not on this machine .*; or leave it out: domains = mnist,usps,syn-digits$"
    with pytest.raises(DataError, match=words):
        load_dataset("digits-domains", data_dir=four)
    assert len(load_dataset("digits-domains", data_dir=four, domains="mnist,usps,syn-digits").domains) == 3


@pytest.mark.parametrize(
    ("domains", "words"),
    [
        ("mnist,uspss", "unknown domain 'uspss'; did you mean 'usps'"),
        ("mnist,mnist", "names mnist twice"),
        (["mnist", "uspss"], "unknown domain 'uspss'; did you mean 'usps'"),
        (5, "domains = 5 must be names, such as mnist,usps"),
        (" , ", "names none of mnist, usps, svhn, syn-digits"),
    ],
)
def test_domains_that_are_none_are_told(four, domains, words):
    with pytest.raises(UsageError, match=words):
        load_dataset("digits-domains", data_dir=four, domains=domains)


def test_a_bad_file_of_one_domain_is_told_as_alone(four):
    (four / "usps" / "usps.bz2").write_bytes(b"hello\n")
    with pytest.raises(DataError, match=r"usps\.bz2 is not in the LIBSVM format.*; replace it, or delete it"):
        load_dataset("digits-domains", data_dir=four)


def test_files_of_clothes_are_not_taken_for_digits(four, images, write_images):
    images["train-labels-idx1-ubyte"][:10] = mnist.FASHION_MNIST.first_labels
    write_images(four / "mnist")
    with pytest.raises(DataError, match="belongs to fashion-mnist"):
        load_dataset("digits-domains", data_dir=four)


def test_enlarging_interpolates_between_pixel_centres():
    # From 2 to 4: new centres lie at -1/4, 1/4, 3/4, 5/4 between the old ones, clipped to 0..1.
    row = np.array([0, 100], np.uint8)
    out = bilinear(np.broadcast_to(row, (1, 1, 2, 2)), 4)
    assert out[0, 0].tolist() == [[0, 25, 75, 100]] * 4
    out = bilinear(np.broadcast_to(row[:, None], (1, 1, 2, 2)), 4)
    assert out[0, 0].T.tolist() == [[0, 25, 75, 100]] * 4


@pytest.mark.parametrize("side", [16, 28])
def test_enlarging_agrees_with_pillow(shades, side):
    images = shades.randint(0, 256, (20, 1, side, side)).astype(np.uint8)
    theirs = [np.asarray(Image.fromarray(one[0]).resize((32, 32), Image.Resampling.BILINEAR)) for one in images]
    assert np.abs(bilinear(images, 32)[:, 0].astype(int) - np.stack(theirs)).max() <= 1  # it rounds after each axis


def test_images_of_the_right_size_and_plain_ones_stay_as_they_are(shades):
    images = shades.randint(0, 256, (3, 3, 32, 32)).astype(np.uint8)
    assert bilinear(images, 32) is images
    assert (bilinear(np.full((2, 1, 1, 7), 9, np.uint8), 32) == 9).all()
    many = np.repeat(np.arange(200, dtype=np.uint8), 30)[:, None, None, None] * np.ones((1, 1, 4, 4), np.uint8)
    assert (bilinear(many, 8)[:, 0, 3, 3] == many[:, 0, 0, 0]).all()  # more than is done in one go
