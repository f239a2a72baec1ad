import io
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest

from fedvls.data import cifar, load_dataset
from fedvls.errors import DataError

SETS = {"cifar10": cifar.CIFAR10, "cifar100": cifar.CIFAR100}
PER_BATCH = 4


def batch_names(form):
    return (*form.train, form.test)


@pytest.fixture
def truth():
    """Images (n, 3, 32, 32), fine and coarse labels of every batch, of either set."""
    draw = np.random.RandomState(3)

    def make(name):
        source = SETS[name]
        return [
            (
                draw.randint(0, 256, (PER_BATCH, 3, 32, 32)).astype(np.uint8),
                draw.randint(0, source.classes, PER_BATCH),
                draw.randint(0, 20, PER_BATCH),
            )
            for _ in batch_names(source.forms[0])
        ]

    return make


def contents(name, form, batches):
    """The files of one form as they are published: pickles of protocol 2 with keys of bytes, or plain records."""
    files = {}
    for file, (x, y, coarse) in zip(batch_names(form), batches, strict=True):
        rows = x.reshape(len(x), -1)
        if file.endswith(".bin"):
            labels = [y] if name == "cifar10" else [coarse, y]
            files[file] = np.column_stack([*labels, rows]).astype(np.uint8).tobytes()
        else:
            labels = {"cifar10": {b"labels": y.tolist()}}.get(
                name, {b"fine_labels": y.tolist(), b"coarse_labels": coarse.tolist()}
            )
            batch = {b"data": rows, **labels, b"filenames": [b"a.png"] * len(x), b"batch_label": b"one of them"}
            files[file] = pickle.dumps(batch, protocol=2)
    names = [f"fine {number}" for number in range(100)]
    if form.names.endswith(".txt"):
        files[form.names] = "\n".join(one.replace(" ", "_") for one in names).encode() + b"\n"
    elif form.names:
        meta = {b"fine_label_names": [one.replace(" ", "_").encode() for one in names], b"coarse_label_names": [b"x"]}
        files[form.names] = pickle.dumps(meta, protocol=2)
    return files


def write_folder(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        (folder / file).write_bytes(content)


def write_archive(path, inner, files, mode="w:gz"):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode) as archive:
        for file, content in {"readme.html": b"<html>", **files}.items():
            member = tarfile.TarInfo(f"{inner}/{file}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


FORMS = [(name, number) for name in SETS for number in (0, 1)]


@pytest.mark.parametrize(("name", "number"), FORMS)
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("place", ["", "own"])
def test_both_forms_are_read_packed_or_not_from_either_place(tmp_path, truth, name, number, packed, place, offline):
    form, batches = SETS[name].forms[number], truth(name)
    home = tmp_path / (name if place else "")
    if packed:
        write_archive(home / form.archive, form.folder, contents(name, form, batches))
    else:
        write_folder(home / form.folder, contents(name, form, batches))
    data = load_dataset(name, data_dir=tmp_path)
    assert data.x_train.dtype == np.uint8
    assert np.array_equal(data.x_train, np.concatenate([x for x, _, _ in batches[:-1]]))
    assert data.y_train.tolist() == np.concatenate([y for _, y, _ in batches[:-1]]).tolist()
    assert np.array_equal(data.x_test, batches[-1][0])
    assert data.y_test.tolist() == batches[-1][1].tolist()
    assert data.spec == {"name": name, "data_dir": str(tmp_path)}
    if name == "cifar10":
        assert data.class_names[0] == "airplane"
        assert data.class_names[9] == "truck"
    else:
        assert data.class_names[99] == "fine_99"


def test_scale_is_that_of_the_paper(tmp_path, truth):
    # means 125.3, 123.0, 113.9 and deviations 63.0, 62.1, 66.7 of 255
    for name, (mean, std) in {
        "cifar10": ((0.49137, 0.48235, 0.44667), (0.24706, 0.24353, 0.26157)),
        "cifar100": ((0.50708, 0.48655, 0.44092), (0.26733, 0.25644, 0.27615)),
    }.items():
        form = SETS[name].forms[1]
        write_folder(tmp_path / form.folder, contents(name, form, truth(name)))
        data = load_dataset(name, data_dir=tmp_path)
        assert np.round(data.mean, 5).tolist() == list(mean)
        assert np.round(data.std, 5).tolist() == list(std)


@pytest.mark.parametrize("form", cifar.CIFAR10.forms, ids=lambda form: form.folder)
def test_the_folder_of_batches_itself_can_be_named(tmp_path, truth, form):
    write_folder(tmp_path / "here", contents("cifar10", form, truth("cifar10")))
    assert len(load_dataset("cifar10", data_dir=tmp_path / "here").y_train) == 5 * PER_BATCH


def test_unpacked_batches_go_before_an_archive(tmp_path, truth):
    form = cifar.CIFAR10.forms[0]
    unpacked = truth("cifar10")
    write_folder(tmp_path / form.folder, contents("cifar10", form, unpacked))
    write_archive(tmp_path / form.archive, form.folder, contents("cifar10", form, truth("cifar10")))
    assert np.array_equal(load_dataset("cifar10", data_dir=tmp_path).x_test, unpacked[-1][0])


def test_a_hundred_classes_without_a_file_of_names_are_numbered(tmp_path, truth):
    form = cifar.CIFAR100.forms[0]
    files = contents("cifar100", form, truth("cifar100"))
    del files["meta"]
    write_folder(tmp_path / form.folder, files)
    assert load_dataset("cifar100", data_dir=tmp_path).class_names[7] == "7"


def test_keys_of_text_and_an_unpacked_tar_are_read_too(tmp_path, truth):
    form, batches = cifar.CIFAR10.forms[0], truth("cifar10")
    files = {
        file: pickle.dumps({"data": x.reshape(len(x), -1), "labels": y.tolist()}, protocol=4)
        for file, (x, y, _) in zip(batch_names(form), batches, strict=True)
    }
    write_archive(tmp_path / form.archive, f"./{form.folder}", files, mode="w")
    assert np.array_equal(load_dataset("cifar10", data_dir=tmp_path).x_test, batches[-1][0])


def test_a_set_of_another_size_than_the_published_one_is_said(tmp_path, truth, caplog):
    form = cifar.CIFAR10.forms[1]
    write_folder(tmp_path / form.folder, contents("cifar10", form, truth("cifar10")))
    load_dataset("cifar10", data_dir=tmp_path)
    assert "has 20 training and 4 test samples: the published set has 50000 and 10000" in caplog.text


@pytest.mark.parametrize(("name", "archive"), [("cifar10", "cifar-10-python"), ("cifar100", "cifar-100-python")])
def test_what_is_missing_offline_is_named_with_its_place(tmp_path, offline, name, archive):
    with pytest.raises(DataError) as caught:
        load_dataset(name, data_dir=tmp_path)
    assert str(caught.value).startswith(f"{name} is not on this machine and could not be downloaded (")
    assert str(caught.value).endswith(
        f": put {archive}.tar.gz into {tmp_path}/{name} or name their folder with --data-dir"
    )


def test_a_folder_that_lacks_a_batch_is_not_taken(tmp_path, truth, offline):
    form = cifar.CIFAR10.forms[1]
    write_folder(tmp_path / form.folder, contents("cifar10", form, truth("cifar10")))
    (tmp_path / form.folder / "data_batch_3.bin").unlink()
    with pytest.raises(DataError, match="cifar10 is not on this machine"):
        load_dataset("cifar10", data_dir=tmp_path)


def pickled(value):
    return pickle.dumps(value, protocol=2)


ROWS = np.zeros((2, 3072), np.uint8)
BAD = {
    "not a dict": (pickled([1, 2]), "data_batch_2 is not a CIFAR batch: it lacks data or labels"),
    "no labels": (pickled({b"data": ROWS}), "it lacks data or labels"),
    "data no array": (pickled({b"data": [1], b"labels": [1]}), "it lacks data or labels"),
    "other shape": (pickled({b"data": ROWS[:, :9], b"labels": [0, 1]}), r"holds uint8 of shape \(2, 9\): expected"),
    "other type": (pickled({b"data": ROWS.astype("f4"), b"labels": [0, 1]}), "holds float32"),
    "lengths": (pickled({b"data": ROWS, b"labels": [0, 1, 2]}), "has 2 images but 3 labels"),
    "labels of text": (pickled({b"data": ROWS, b"labels": [b"a", b"b"]}), "labels has dtype"),
    "label too high": (pickled({b"data": ROWS, b"labels": [0, 10]}), r"y_train\[5\] = 10 is outside 0\.\.9"),
    "a program": (b"cos\nsystem\n(S'false'\ntR.", "is refused: it asks for os.system"),
    "cut off": (pickled({b"data": ROWS, b"labels": [0, 1]})[:-9], "is not a complete pickle of arrays"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("packed", [True, False])
def test_a_bad_batch_is_named_in_one_line(tmp_path, truth, case, packed):
    content, words = BAD[case]
    form = cifar.CIFAR10.forms[0]
    files = {**contents("cifar10", form, truth("cifar10")), "data_batch_2": content}
    if packed:
        write_archive(tmp_path / form.archive, form.folder, files)
    else:
        write_folder(tmp_path / form.folder, files)
    with pytest.raises(DataError, match=words) as caught:
        load_dataset("cifar10", data_dir=tmp_path)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_records_that_are_cut_off_are_told(tmp_path, truth):
    form = cifar.CIFAR10.forms[1]
    write_folder(tmp_path / form.folder, contents("cifar10", form, truth("cifar10")))
    path = tmp_path / form.folder / "data_batch_4.bin"
    for content in (path.read_bytes()[:-1], b""):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"data_batch_4\.bin is cut off: \d+ bytes are not a whole number.*replace"):
            load_dataset("cifar10", data_dir=tmp_path)


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        ({b"fine_label_names": [b"apple"]}, "meta has 1 names for 100 classes"),
        ({b"label_names": [b"apple"]}, "meta lacks fine_label_names"),
    ],
)
def test_names_that_do_not_fit_a_hundred_classes_are_told(tmp_path, truth, meta, words):
    form = cifar.CIFAR100.forms[0]
    write_folder(tmp_path / form.folder, {**contents("cifar100", form, truth("cifar100")), "meta": pickled(meta)})
    with pytest.raises(DataError, match=words):
        load_dataset("cifar100", data_dir=tmp_path)


def test_a_member_that_claims_too_much_is_refused_unread(tmp_path):
    form = cifar.CIFAR10.forms[0]
    member = tarfile.TarInfo(f"{form.folder}/data_batch_1")
    member.size = 2**40
    (tmp_path / form.archive).write_bytes(member.tobuf() + bytes(10240))
    with pytest.raises(DataError, match="data_batch_1 claims 1099511627776 bytes, which is more than it can have"):
        load_dataset("cifar10", data_dir=tmp_path)


def test_a_cut_archive_that_is_not_packed_is_told(tmp_path, truth):
    form = cifar.CIFAR10.forms[1]
    path = tmp_path / form.archive
    write_archive(path, form.folder, contents("cifar10", form, truth("cifar10")), mode="w")
    path.write_bytes(path.read_bytes()[:20000])
    with pytest.raises(DataError, match=r"cifar-10-binary\.tar\.gz is damaged: unexpected end of data"):
        load_dataset("cifar10", data_dir=tmp_path)


def test_a_file_the_system_refuses_is_told(tmp_path, truth, monkeypatch):
    form = cifar.CIFAR10.forms[1]
    write_folder(tmp_path / form.folder, contents("cifar10", form, truth("cifar10")))

    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(DataError, match=r"data_batch_1\.bin cannot be read: Permission denied$"):
        load_dataset("cifar10", data_dir=tmp_path)


def test_an_archive_that_lacks_a_batch_is_told(tmp_path, truth):
    form = cifar.CIFAR10.forms[0]
    files = contents("cifar10", form, truth("cifar10"))
    del files["data_batch_5"]
    write_archive(tmp_path / form.archive, form.folder, files)
    with pytest.raises(DataError, match="lacks cifar-10-batches-py/data_batch_5; replace it, or delete it to have"):
        load_dataset("cifar10", data_dir=tmp_path)


def test_a_damaged_archive_is_told(tmp_path, truth):
    form = cifar.CIFAR10.forms[0]
    path = tmp_path / form.archive
    write_archive(path, form.folder, contents("cifar10", form, truth("cifar10")))
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], whole[:-8] + b"\0\0\0\0" + whole[-4:], b"", b"no archive at all" * 99):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"cifar-10-python\.tar\.gz (is damaged|lacks)[^\n]*$"):
            load_dataset("cifar10", data_dir=tmp_path)


def test_nothing_an_archive_names_is_written_to_disk(tmp_path, truth):
    form = cifar.CIFAR10.forms[0]
    files = {**contents("cifar10", form, truth("cifar10")), "../../escaped": b"x", "/escaped": b"x"}
    home = tmp_path / "deep" / "home"
    write_archive(home / form.archive, form.folder, files)
    with tarfile.open(home / form.archive, "r:gz") as archive:
        assert any(".." in name for name in archive.getnames())
    load_dataset("cifar10", data_dir=home)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [form.archive]


def test_links_in_an_archive_are_not_followed(tmp_path, truth):
    form = cifar.CIFAR10.forms[0]
    files = contents("cifar10", form, truth("cifar10"))
    del files["test_batch"]
    path = tmp_path / form.archive
    with tarfile.open(path, "w:gz") as archive:
        for file, content in files.items():
            member = tarfile.TarInfo(f"{form.folder}/{file}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo(f"{form.folder}/test_batch")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(DataError, match="lacks cifar-10-batches-py/test_batch"):
        load_dataset("cifar10", data_dir=tmp_path)


def test_published_addresses_and_sums():
    for source in SETS.values():
        assert all(form.checksum.startswith("md5:") and len(form.checksum) == 36 for form in source.forms)
        assert all(url.startswith("https://") for url in source.base_urls)
