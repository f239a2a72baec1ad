import io
import sys
import zipfile

import numpy as np
import pytest
from PIL import Image

from fedvls.data import archives, load_dataset, tiny
from fedvls.errors import DataError

WNIDS = ["n02", "n03", "n01"]  # not in alphabetical order, as in the published list
WORDS = "n01\tgoldfish, Carassius auratus\nn02\tsalamander\nn09\tnot used\n"


def jpeg(shade, mode="RGB", size=64, kind="JPEG"):
    """A plain image, which JPEG keeps as it is."""
    stream = io.BytesIO()
    Image.new(mode, (size, size), shade if mode == "L" else (shade, shade // 2, 0)).save(stream, kind)
    return stream.getvalue()


@pytest.fixture
def files():
    """The published layout with two training images and one validation image per class."""
    found = {"wnids.txt": "\n".join(WNIDS).encode() + b"\n", "words.txt": WORDS.encode()}
    for number, wnid in enumerate(WNIDS):
        found[f"train/{wnid}/{wnid}_boxes.txt"] = b"box\t0\t0\t9\t9\n"
        for image in (0, 10):
            found[f"train/{wnid}/images/{wnid}_{image}.JPEG"] = jpeg(40 * number + image)
    found["train/n03/images/n03_10.JPEG"] = jpeg(77, mode="L")
    for image, wnid in enumerate(["n01", "n02", "n03"]):
        found[f"val/images/val_{image}.JPEG"] = jpeg(200 + image)
        line = f"val_{image}.JPEG\t{wnid}\t0\t32\t44\t62\n".encode()
        found["val/val_annotations.txt"] = found.get("val/val_annotations.txt", b"") + line
    found["test/images/test_0.JPEG"] = jpeg(1)
    return found


def write_folder(root, files):
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


def write_zip(path, files):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.mkdir("tiny-imagenet-200")
        for name, content in files.items():
            archive.writestr(f"tiny-imagenet-200/{name}", content)


def check(data):
    assert data.x_train.shape == (6, 3, 64, 64)
    assert data.x_train.dtype == np.uint8
    assert data.y_train.tolist() == [0, 0, 1, 1, 2, 2]
    assert data.y_test.tolist() == [0, 1, 2]
    # red of every image: classes in the order of the list, grey becomes three equal channels
    near = [0, 10, 40, 77, 80, 90]
    assert np.abs(data.x_train[:, 0, 5, 5].astype(int) - near).max() <= 2
    assert np.abs(data.x_train[3, :, 5, 5].astype(int) - 77).max() <= 1
    assert np.abs(data.x_test[:, 0, 5, 5].astype(int) - [201, 202, 200]).max() <= 2
    assert data.class_names == ("salamander", "n03", "goldfish")
    assert data.mean == data.std == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("place", [".", "tiny-imagenet", "tiny-imagenet/tiny-imagenet-200", "tiny-imagenet-200"])
def test_the_published_folder_is_read(tmp_path, files, place):
    write_folder(tmp_path / place, files)
    check(load_dataset("tiny-imagenet", data_dir=tmp_path))


@pytest.mark.parametrize("place", [".", "tiny-imagenet"])
def test_the_archive_is_read_as_it_is(tmp_path, files, place):
    write_zip(tmp_path / place / "tiny-imagenet-200.zip", files)
    check(load_dataset("tiny-imagenet", data_dir=tmp_path))
    assert sum(path.is_file() for path in tmp_path.rglob("*")) == 1  # nothing was unpacked


def test_a_folder_whose_validation_images_are_grouped_already_is_read(tmp_path, files):
    grouped = {name: content for name, content in files.items() if not name.startswith("val/")}
    for image, wnid in enumerate(["n01", "n02", "n03"]):
        grouped[f"val/{wnid}/val_{image}.JPEG"] = files[f"val/images/val_{image}.JPEG"]
    write_folder(tmp_path, grouped)
    check(load_dataset("tiny-imagenet", data_dir=tmp_path))


def test_without_words_the_classes_keep_their_numbers(tmp_path, files):
    del files["words.txt"]
    write_folder(tmp_path, files)
    assert load_dataset("tiny-imagenet", data_dir=tmp_path).class_names == tuple(WNIDS)


ANNOTATIONS = "val/val_annotations.txt"
BAD = {
    "no list": ({"wnids.txt": None}, "lacks wnids.txt"),
    "empty list": ({"wnids.txt": b"n01\n"}, "wnids.txt must list at least two classes"),
    "class twice": ({"wnids.txt": b"n01\nn02\nn03\nn01\n"}, "each once"),
    "class without images": ({"wnids.txt": b"n01\nn02\nn03\nn04\n"}, "train has no image of class n04"),
    "class not listed": (
        {"train/n07/images/n07_0.JPEG": jpeg(3)},
        r"train/n07 is not one of the classes in wnids\.txt",
    ),
    "annotation of nothing": ({ANNOTATIONS: b"val_0.JPEG\tn55\t1\n"}, "line 1 names no class of wnids.txt: 'n55'"),
    "not annotated": ({"val/images/val_9.JPEG": jpeg(3)}, r"val/images/val_9\.JPEG has no line in"),
    "no annotations": ({ANNOTATIONS: None}, "has no line in val/val_annotations.txt"),
    "no text in a line": ({ANNOTATIONS: b"val_0.JPEG\n"}, "names no class"),
    "other size": ({"train/n01/images/n01_0.JPEG": jpeg(3, size=32)}, r"n01_0\.JPEG has 32x32 pixels, not 64x64"),
    "no image": ({"train/n01/images/n01_0.JPEG": b"hello"}, r"n01_0\.JPEG cannot be read as an image"),
    "cut image": ({"train/n01/images/n01_0.JPEG": jpeg(9)[:400]}, r"n01_0\.JPEG cannot be read as an image"),
    "other format": ({"train/n01/images/n01_0.JPEG": jpeg(9, kind="GIF")}, r"n01_0\.JPEG cannot be read as an image"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_named_in_one_line(tmp_path, files, case):
    changes, words = BAD[case]
    changed = {name: content for name, content in {**files, **changes}.items() if content is not None}
    write_zip(tmp_path / "tiny-imagenet-200.zip", changed)
    with pytest.raises(DataError, match=words) as caught:
        load_dataset("tiny-imagenet", data_dir=tmp_path)
    message = str(caught.value)
    assert str(tmp_path) in message
    assert message.endswith("; replace it, or delete it to have it downloaded again")
    assert "\n" not in message


def test_a_damaged_archive_is_told(tmp_path, files):
    path = tmp_path / "tiny-imagenet-200.zip"
    write_zip(path, files)
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    with pytest.raises(DataError, match="is not a complete zip archive"):
        load_dataset("tiny-imagenet", data_dir=tmp_path)
    at = whole.index(b"\xff\xd8\xff") + 200  # inside the first image, whose sum is then wrong
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
    with pytest.raises(DataError, match=r"n02_0\.JPEG is damaged: "):
        load_dataset("tiny-imagenet", data_dir=tmp_path)


def test_a_member_that_claims_too_much_is_refused_unread(tmp_path, files, monkeypatch):
    write_zip(tmp_path / "tiny-imagenet-200.zip", files)
    monkeypatch.setattr(archives, "_LARGEST", 10)
    with pytest.raises(DataError, match=r"wnids\.txt claims 12 bytes, which is more than it can have"):
        load_dataset("tiny-imagenet", data_dir=tmp_path)


def test_what_is_downloaded_is_read_from_where_it_was_put(tmp_path, files, monkeypatch):
    def bring(wanted, urls, into, name):
        assert list(wanted) == ["tiny-imagenet-200.zip"]
        write_zip(into / "tiny-imagenet-200.zip", files)

    monkeypatch.setattr(tiny, "fetch", bring)
    check(load_dataset("tiny-imagenet", data_dir=tmp_path))


def test_without_pillow_the_extra_to_install_is_named(tmp_path, files, monkeypatch):
    write_folder(tmp_path, files)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(DataError, match=r"needs Pillow to read images: install fedvls\[images\]"):
        load_dataset("tiny-imagenet", data_dir=tmp_path)


def test_what_is_missing_offline_is_named_with_its_place(tmp_path, offline):
    with pytest.raises(DataError) as caught:
        load_dataset("tiny-imagenet", data_dir=tmp_path)
    assert f"put tiny-imagenet-200.zip into {tmp_path}/tiny-imagenet or name their folder" in str(caught.value)
