import sys

import numpy as np
import pytest
from PIL import Image

from fedvls.data import load_dataset
from fedvls.data.holdout import held_out
from fedvls.errors import DataError, UsageError


def save(path, shade, mode="L", size=(5, 4)):
    """A plain image, 5 wide and 4 high."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, shade if mode in ("L", "P", "I;16") else (shade,) * len(mode)).save(path)


@pytest.fixture
def parted(tmp_path):
    """train/ and test/ of two classes."""
    root = tmp_path / "scans"
    for number, label in enumerate(("cat", "ant")):
        for image in range(3):
            save(root / "train" / label / f"{image}.png", 100 * number + image)
        save(root / "test" / label / "0.bmp", 100 * number + 50)
    return root


def test_classes_go_by_the_alphabet_and_images_by_their_names(parted):
    data = load_dataset(str(parted))
    assert data.x_train.shape == (6, 1, 4, 5)
    assert data.class_names == ("ant", "cat")
    assert data.y_train.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.x_train[:, 0, 0, 0].tolist() == [100, 101, 102, 0, 1, 2]
    assert data.x_test[:, 0, 0, 0].tolist() == [150, 50]
    assert data.mean == data.std == (0.5,)
    assert data.name == "scans"


def test_a_folder_can_be_loaded_again_from_its_spec(parted, monkeypatch):
    monkeypatch.chdir(parted.parent)
    data = load_dataset("scans", size="8")
    assert data.spec == {"name": str(parted), "size": "8"}
    named = load_dataset("folder", path="scans", size=8)
    assert named.spec == {"name": "folder", "path": str(parted), "size": 8}
    assert named.name == "scans"
    monkeypatch.chdir("/")
    for spec in (data.spec, named.spec):
        again = load_dataset(**spec)
        assert again.fingerprint == data.fingerprint
        assert again.spec == spec


def test_colour_anywhere_makes_three_channels_and_transparency_is_dropped(parted):
    save(parted / "train" / "cat" / "9.png", 30, "RGBA")
    save(parted / "train" / "cat" / "8.jpg", 200, "RGB")
    data = load_dataset(str(parted))
    assert data.x_train.shape == (8, 3, 4, 5)
    assert data.x_train[-1, :, 0, 0].tolist() == [30, 30, 30]
    assert data.x_train[0, :, 0, 0].tolist() == [100, 100, 100]
    assert data.mean == (0.5, 0.5, 0.5)


def test_images_of_other_sizes_need_a_size_which_all_are_brought_to(parted):
    save(parted / "train" / "cat" / "9.png", 30, size=(9, 9))
    words = r"train/cat/9\.png has 9x9 pixels but 8 of 9 images have 4x5: give the size .* such as size = 4x5$"
    with pytest.raises(DataError, match=words):
        load_dataset(str(parted))
    assert load_dataset(str(parted), size="4x5").x_train.shape == (7, 1, 4, 5)
    square = load_dataset(str(parted), size=6)
    assert square.x_train.shape == (7, 1, 6, 6)
    assert square.x_train[-1].tolist() == [[[30] * 6] * 6]


@pytest.mark.parametrize("size", ["big", "0", "-3", "4x5x6", "4x", 2.5, True])
def test_a_size_that_is_none_is_told(parted, size):
    with pytest.raises(UsageError, match="must be a number of pixels, or height x width such as 48x64"):
        load_dataset(str(parted), size=size)


def test_val_serves_where_there_is_no_test(parted):
    (parted / "test").rename(parted / "val")
    assert load_dataset(str(parted)).x_test[:, 0, 0, 0].tolist() == [150, 50]


@pytest.fixture
def whole(tmp_path):
    """Ten images of each of two classes, not divided."""
    root = tmp_path / "all"
    for number, label in enumerate(("ant", "cat")):
        for image in range(10):
            save(root / label / f"{image}.png", 100 * number + image)
    return root


def test_without_a_test_folder_a_fifth_of_each_class_is_held_out(whole):
    data = load_dataset(str(whole))
    assert data.y_train.tolist() == [0] * 8 + [1] * 8
    assert data.y_test.tolist() == [0] * 2 + [1] * 2
    shades = np.concatenate([data.x_train, data.x_test])[:, 0, 0, 0]
    assert sorted(shades.tolist()) == [*range(10), *range(100, 110)]
    for part, labels in ((data.x_train, data.y_train), (data.x_test, data.y_test)):
        for label in (0, 1):
            assert (np.diff(part[labels == label, 0, 0, 0].astype(int)) > 0).all()  # in the order of the names


def test_what_is_held_out_depends_on_names_alone():
    keys = [f"cat/{number}.png" for number in range(50)]
    labels = np.zeros(50, np.int64)
    test = held_out(labels, keys)
    assert test.sum() == 10
    assert 5 < np.flatnonzero(test).mean() < 45  # mixed, not the last ten
    order = np.random.RandomState(0).permutation(50)
    assert held_out(labels, [keys[at] for at in order]).tolist() == test[order].tolist()
    # blake2b of "cat/0.png" ... worked out once: the same on every machine
    assert np.flatnonzero(test).tolist() == [1, 2, 17, 18, 30, 36, 38, 41, 44, 48]


def test_a_class_of_one_sample_trains():
    assert held_out(np.array([0, 1, 1, 1]), list("abcd")).sum() == 1
    assert not held_out(np.array([0, 1]), list("ab")).any()


def test_equal_keys_stay_together():
    keys = ["same"] * 8 + ["other", "more"]
    # eight equal keys and two others: at most one border runs through the equal ones
    test = held_out(np.zeros(10, np.int64), keys)
    assert test.sum() == 2
    assert (np.diff(test[:8].astype(int)) >= 0).all()


def test_other_files_and_hidden_ones_are_passed_over(parted):
    (parted / "notes.txt").write_text("about")
    (parted / "train" / "cat" / "thumbs.db").write_bytes(b"x")
    (parted / "train" / "cat" / ".hidden.png").write_bytes(b"x")
    (parted / ".git").mkdir()
    assert len(load_dataset(str(parted)).y_train) == 6


def test_what_is_wrong_with_a_folder_is_told(parted, tmp_path):
    (tmp_path / "empty").mkdir()
    cases = {
        "must have a folder of images": (tmp_path / "empty", lambda: None),
        r"train/elk has no image": (parted, lambda: save_text(parted / "train" / "elk" / "a.txt")),
    }
    for words, (root, prepare) in cases.items():
        prepare()
        with pytest.raises(DataError, match=words):
            load_dataset(str(root))


def save_text(path):
    path.parent.mkdir(parents=True)
    path.write_text("x")


def test_a_class_that_only_the_test_part_has_is_told(parted):
    save(parted / "test" / "elk" / "0.png", 3)
    with pytest.raises(DataError, match="class 'elk' is in test/ but not in train/"):
        load_dataset(str(parted))


def test_train_without_test_is_told(parted):
    for path in (parted / "test").rglob("*.bmp"):
        path.unlink()
    with pytest.raises(DataError, match="has train/ but no test/ with a folder per class"):
        load_dataset(str(parted))


def test_one_class_is_told(whole):
    for path in (whole / "cat").iterdir():
        path.unlink()
    with pytest.raises(DataError, match="for each of at least two classes"):
        load_dataset(str(whole))


def test_single_images_cannot_be_held_out(tmp_path):
    for label in "ab":
        save(tmp_path / "few" / label / "0.png", 3)
    with pytest.raises(DataError, match="there is no image to test on"):
        load_dataset(str(tmp_path / "few"))


def test_a_damaged_or_deep_image_is_named(parted):
    path = parted / "train" / "cat" / "1.png"
    save(path, 300, "I;16")
    with pytest.raises(DataError, match=r"cat/1\.png has more than 8 bits per pixel \(mode I;16\): save it with 8"):
        load_dataset(str(parted))
    path.write_bytes(b"\x89PNG and nothing more")
    with pytest.raises(DataError, match=r"cat/1\.png cannot be read as an image: "):
        load_dataset(str(parted))


def test_a_palette_is_resolved(parted):
    save(parted / "train" / "cat" / "p.png", 0, "P")
    assert load_dataset(str(parted)).x_train.shape[1] == 3


def test_without_pillow_the_extra_to_install_is_named(parted, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(DataError, match=r"scans needs Pillow to read images: install fedvls\[images\]"):
        load_dataset(str(parted))


def test_a_registered_name_goes_before_a_folder_of_that_name(parted, monkeypatch):
    parted.rename(parted.parent / "digits")
    monkeypatch.chdir(parted.parent)
    assert load_dataset("digits").classes == 10
    assert load_dataset("./digits").classes == 2


def test_the_folder_to_read_must_be_said(tmp_path):
    with pytest.raises(UsageError, match="missing a required argument: 'path'"):
        load_dataset("folder")
    with pytest.raises(DataError, match="nowhere cannot be read: No such file"):
        load_dataset("folder", path=str(tmp_path / "nowhere"))
