import zipfile

import numpy as np
import pytest

from fedvls.data import load_dataset
from fedvls.data.npz import load_npz
from fedvls.errors import DataError, FedvlsError


def saved(path, arrays):
    np.savez_compressed(path, **arrays)
    return path


def test_what_is_saved_comes_back(tmp_path, small):
    data = load_npz(saved(tmp_path / "ward.npz", small))
    assert data.name == "ward"
    for key, array in small.items():
        assert np.array_equal(getattr(data, key), array)


def test_loading_by_path_can_be_repeated_from_its_spec(tmp_path, small, monkeypatch):
    saved(tmp_path / "ward.npz", small)
    monkeypatch.chdir(tmp_path)
    data = load_dataset("ward.npz", mean=1.5, std=[2.0], classes=5)
    assert data.spec == {"name": str(tmp_path / "ward.npz"), "mean": [1.5], "std": [2.0], "classes": 5}
    monkeypatch.chdir("/")
    again = load_dataset(**data.spec)
    assert again.fingerprint == data.fingerprint
    assert again.spec == data.spec
    assert again.name == "ward"


def test_a_file_needs_no_ending(tmp_path, small, monkeypatch):
    saved(tmp_path / "ward.npz", small).rename(tmp_path / "ward")
    monkeypatch.chdir(tmp_path)
    assert load_dataset("ward").classes == 3


def test_missing_arrays_are_named_with_those_that_are_there(tmp_path, small):
    path = saved(tmp_path / "a.npz", {"x_train": small["x_train"], "labels": small["y_train"]})
    with pytest.raises(DataError, match=r"a\.npz lacks y_train, x_test, y_test; it holds x_train, labels$"):
        load_npz(path)


def test_pickled_objects_are_refused(tmp_path, small):
    path = saved(tmp_path / "a.npz", {**small, "y_train": np.array([{}] * 6, dtype=object)})
    with pytest.raises(DataError, match=r"a\.npz: y_train holds pickled objects, which are never loaded"):
        load_npz(path)


def with_member(path, small, content):
    """An archive, whole as an archive, in which `y_train` has this content."""
    saved(path, {key: small[key] for key in ("x_train", "x_test", "y_test")})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("y_train.npy", content)
    return path


def npy(description):
    """An .npy member with this description of its array in the header."""
    return b"\x93NUMPY\x01\x00" + len(description).to_bytes(2, "little") + description + bytes(48)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"0,1,2,0,1,2", "is not an array"),
        (npy(b"{'descr': '<i8', 'fortran_order': False, 'shape': (7,)}\n"), "is damaged"),
        (npy(b"{'descr': '<i8', 'fortran_order': False, 'shape': (6,\n"), "is damaged"),
        (npy(b"{'descr': '<i8', 'fortran_order': False, 'shape': (06,)}\n"), "is damaged"),
        (npy(b"{'descr': '<q99', 'fortran_order': False, 'shape': (6,)}\n"), "is damaged"),
        (npy(b"{'descr': '<i8', 'fortran_order': False, 'shape': (%d,)}\n" % 2**50), "does not fit into memory"),
        (npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (6,)}\n"), "holds pickled objects"),
    ],
)
def test_a_member_that_is_no_proper_array_is_refused(tmp_path, small, content, words):
    with pytest.raises(DataError, match=rf"a\.npz: y_train {words}[^\n]*$"):
        load_npz(with_member(tmp_path / "a.npz", small, content))


@pytest.mark.parametrize("content", [b"", b"x_train,y_train\n1,2\n", b"\x80\x04N."])
def test_a_file_that_is_no_archive_is_named(tmp_path, content):
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.npz is not a complete \.npz file"):
        load_npz(path)


def test_a_plain_npy_file_is_named(tmp_path, small):
    np.save(tmp_path / "a.npy", small["x_train"])
    with pytest.raises(DataError, match=r"a\.npy is not a complete \.npz file"):
        load_dataset(str(tmp_path / "a.npy"))


def test_every_cut_of_a_file_is_refused(tmp_path, small):
    content = saved(tmp_path / "whole.npz", small).read_bytes()
    path = tmp_path / "cut.npz"
    for length in range(0, len(content), 37):
        path.write_bytes(content[:length])
        with pytest.raises(DataError, match=r"cut\.npz is not a complete"):
            load_npz(path)


def outcome(path):
    """The data, or the message a user would see; anything else that is raised goes on to the test."""
    try:
        return load_npz(path)
    except FedvlsError as error:
        return str(error)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_damaged_bytes_change_nothing_or_are_told_in_one_line(tmp_path, small, save):
    save(tmp_path / "whole.npz", **small)
    content = (tmp_path / "whole.npz").read_bytes()
    path, messages = tmp_path / "flipped.npz", []
    for position in range(len(content)):
        for flip in (0x01, 0xFF):
            path.write_bytes(content[:position] + bytes([content[position] ^ flip]) + content[position + 1 :])
            result = outcome(path)
            if isinstance(result, str):
                messages.append(result)
            else:
                assert all(np.array_equal(getattr(result, key), array) for key, array in small.items())
    assert len(messages) > len(content) / 2
    assert all("flipped.npz" in message and "\n" not in message for message in messages)


def test_bad_values_are_told_with_their_file(tmp_path, small):
    small["x_train"][1, 2] = np.nan
    with pytest.raises(DataError, match=r"a\.npz: x_train\[1, 2\] = nan"):
        load_npz(saved(tmp_path / "a.npz", small))


def test_a_missing_file_or_a_folder_is_named(tmp_path):
    with pytest.raises(DataError, match=r"none\.npz does not exist"):
        load_dataset(str(tmp_path / "none.npz"))
    with pytest.raises(DataError, match=r"is a folder: name an \.npz file"):
        load_npz(tmp_path)


def test_tokens_are_read_with_the_size_of_their_vocabulary(tmp_path, small):
    tokens = {"x_train": small["x_train"].astype(int), "x_test": small["x_test"].astype(int)}
    data = load_dataset(str(saved(tmp_path / "text.npz", {**small, **tokens})), vocabulary="30")
    assert (data.vocabulary, data.x_train.dtype) == (30, np.int32)
    assert data.spec == {"name": str(tmp_path / "text.npz"), "vocabulary": 30}
    with pytest.raises(DataError, match=r"text\.npz: x_train\[5, 0\] = 20 is outside 0\.\.19"):
        load_dataset(str(tmp_path / "text.npz"), vocabulary=20)
