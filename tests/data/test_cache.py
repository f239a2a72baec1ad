"""Decoded sets on disk: used when they are right, made again when anything is wrong."""

import json
import logging
import os
import shutil
import subprocess
import sys
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from fedvls.data import cifar, load_dataset
from fedvls.data.cache import Decoded, Found, _digest, cache_folder, stamps_of
from fedvls.errors import DataError


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source.bin"
    path.write_bytes(b"some bytes")
    return path


class Decoder:
    """Counts how often it is asked."""

    def __init__(self, shift=0):
        self.calls, self.shift = 0, shift

    def __call__(self):
        self.calls += 1
        x = np.arange(2 * 3 * 40, dtype=np.uint8).reshape(2, 3, 40) + np.uint8(self.shift)
        return Decoded.of(x, np.array([0, 1]), x[:1], np.array([1]), class_names=["a", "b"], vocabulary=5)


def found(source, decoder, **changes):
    return Found("demo", source, stamps_of([source]), decoder, **changes)


def entries(cache):
    return sorted(path.name for path in cache.iterdir())


def test_the_second_load_reads_the_cache_and_decodes_nothing(source, cache):
    decoder = Decoder()
    first = found(source, decoder).load()
    second = found(source, decoder).load()
    assert decoder.calls == 1
    assert len(entries(cache)) == 1
    for key, array in first.arrays.items():
        mapped = second.arrays[key]
        assert isinstance(mapped, np.memmap)
        assert not mapped.flags.writeable
        assert mapped.dtype == array.dtype
        assert np.array_equal(mapped, array)
    assert second.about == {"class_names": ["a", "b"], "vocabulary": 5}


@pytest.mark.parametrize("change", ["content", "time", "version", "values", "kind", "place"])
def test_anything_that_matters_makes_it_decode_again(source, cache, change, tmp_path):
    decoder, changes = Decoder(), {}
    found(source, decoder).load()
    if change == "content":
        source.write_bytes(b"other bytes, more of them")
    elif change == "time":
        os.utime(source, ns=(1, 1))
    elif change == "version":
        changes["version"] = 2
    elif change == "values":
        changes["values"] = {"size": 3}
    elif change == "kind":
        Found("other", source, stamps_of([source]), decoder).load()
    elif change == "place":
        source = shutil.copy2(source, tmp_path / "moved.bin")
    if change != "kind":
        found(source, decoder, **changes).load()
    assert decoder.calls == 2


def test_what_an_earlier_state_of_the_file_gave_is_removed_and_the_rest_kept(source, cache, tmp_path):
    other = tmp_path / "other.bin"
    other.write_bytes(b"x")
    found(other, Decoder()).load()
    found(source, Decoder()).load()
    before = set(entries(cache))
    source.write_bytes(b"changed")
    found(source, Decoder()).load()
    after = set(entries(cache))
    assert len(before) == len(after) == 2
    assert len(before & after) == 1


def flip(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(bytes(content))


DAMAGE = {
    "a flipped bit among the values": lambda entry: flip(entry / "x_train.npy", -1),
    "a flipped bit in the header": lambda entry: flip(entry / "x_train.npy", 20),
    "a cut array": lambda entry: (entry / "x_test.npy").write_bytes((entry / "x_test.npy").read_bytes()[:-1]),
    "a longer array": lambda entry: (entry / "x_test.npy").write_bytes((entry / "x_test.npy").read_bytes() + b"x"),
    "an empty array": lambda entry: (entry / "y_test.npy").write_bytes(b""),
    "a missing array": lambda entry: (entry / "y_train.npy").unlink(),
    "a missing description": lambda entry: (entry / "entry.json").unlink(),
    "an empty description": lambda entry: (entry / "entry.json").write_bytes(b""),
    "no json": lambda entry: (entry / "entry.json").write_bytes(b"{{{"),
    "no text": lambda entry: (entry / "entry.json").write_bytes(b"\xff\xfe\x00"),
    "other json": lambda entry: (entry / "entry.json").write_text("[1, 2]"),
    "a changed description": lambda entry: (entry / "entry.json").write_text(
        (entry / "entry.json").read_text().replace('"vocabulary": 5', '"vocabulary": 6')
    ),
    "an empty folder": lambda entry: [path.unlink() for path in entry.iterdir()],
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_entry_is_made_again_with_a_warning(source, cache, case, caplog):
    decoder = Decoder()
    first = found(source, decoder).load()
    (entry,) = cache.iterdir()
    DAMAGE[case](entry)
    with caplog.at_level(logging.WARNING, "fedvls"):
        again = found(source, decoder).load()
    assert decoder.calls == 2
    assert np.array_equal(again.arrays["x_train"], first.arrays["x_train"])
    assert again.about == first.about
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith(f"the decoded copy of {source} in {entry} is damaged (")
    assert message.endswith("): decoding it again")
    found(source, decoder).load()
    assert decoder.calls == 2  # what was made is good


def test_an_array_of_objects_is_never_unpickled(source, cache):
    decoder = Decoder()
    found(source, decoder).load()
    (entry,) = cache.iterdir()
    np.save(entry / "y_test.npy", np.array([{}], dtype=object), allow_pickle=True)
    outer = json.loads((entry / "entry.json").read_text())
    content = (entry / "y_test.npy").read_bytes()
    outer["entry"]["files"]["y_test"] = {"bytes": len(content), "crc32": zlib.crc32(content)}
    outer["sum"] = _digest(outer["entry"])
    (entry / "entry.json").write_text(json.dumps(outer))  # all sums are right
    found(source, decoder).load()
    assert decoder.calls == 2


def test_a_folder_that_cannot_be_written_only_costs_time(source, tmp_path, monkeypatch, caplog):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a folder")
    monkeypatch.setenv("FEDVLS_CACHE_DIR", str(in_the_way / "below"))
    decoder = Decoder()
    for calls in (1, 2):
        assert found(source, decoder).load().about["vocabulary"] == 5
        assert decoder.calls == calls
    assert "demo cannot be kept in" in caplog.text
    assert "the next start decodes it again" in caplog.text


def test_a_full_disk_leaves_nothing_behind(source, cache, monkeypatch):
    def full(path, array, **keywords):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    assert found(source, Decoder()).load().about["vocabulary"] == 5
    assert entries(cache) == []


def test_unfinished_entries_are_swept_away_when_they_are_old(source, cache):
    old, young = cache / ".writing-1-aa", cache / ".writing-2-bb"
    for folder in (old, young):
        folder.mkdir(parents=True)
        (folder / "x_train.npy").write_bytes(b"half")
    yesterday = time.time() - 2 * 24 * 3600
    os.utime(old, (yesterday, yesterday))
    found(source, Decoder()).load()
    assert not old.exists()
    assert young.exists()


def test_writers_at_the_same_time_leave_one_good_entry(source, cache):
    decoders = [Decoder() for _ in range(16)]
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda decoder: found(source, decoder).load(), decoders))
    assert len(entries(cache)) == 1
    assert all(np.array_equal(one.arrays["x_train"], made[0].arrays["x_train"]) for one in made)
    late = Decoder()
    found(source, late).load()
    assert late.calls == 0


def test_a_writer_that_comes_second_leaves_the_entry_of_the_first(source, cache):
    def slow():
        found(source, Decoder()).load()  # meanwhile, elsewhere
        return Decoder()()

    made = found(source, slow).load()
    assert made.about["vocabulary"] == 5
    assert len(entries(cache)) == 1


def test_an_entry_that_cannot_be_renamed_is_not_kept(source, cache, monkeypatch, caplog):
    def refuse(path, target):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refuse)
    assert found(source, Decoder()).load().about["vocabulary"] == 5
    assert entries(cache) == []
    assert "(Permission denied): the next start decodes it again" in caplog.text


WORKER = """
import sys, numpy as np
from pathlib import Path
from fedvls.data.cache import Decoded, Found, stamps_of
source = Path(sys.argv[1])
def decode():
    x = np.arange(300000, dtype=np.uint8).reshape(100, 3000)
    return Decoded.of(x, np.zeros(100, int), x, np.zeros(100, int))
for _ in range(20):
    made = Found("demo", source, stamps_of([source]), decode).load()
    assert int(made.arrays["x_train"].sum()) == SUM, "wrong values"
"""


def test_processes_at_the_same_time_read_right_values_even_while_entries_are_damaged(source, cache):
    total = int(np.arange(300000, dtype=np.uint8).sum())
    command = [sys.executable, "-c", WORKER.replace("SUM", str(total)), str(source)]
    workers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    deadline = time.monotonic() + 60
    while any(worker.poll() is None for worker in workers) and time.monotonic() < deadline:
        for path in cache.glob("demo-*/entry.json"):
            path.unlink(missing_ok=True)
        time.sleep(0.02)
    for worker in workers:
        _, errors = worker.communicate(timeout=30)
        assert worker.returncode == 0, errors
    assert not list(cache.glob(".writing-*"))


def test_the_default_folder_is_in_the_users_cache(tmp_path, monkeypatch):
    monkeypatch.delenv("FEDVLS_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "fedvls" / "decoded"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "fedvls" / "decoded"


def test_an_error_while_decoding_is_not_kept(source, cache):
    def fail():
        raise DataError("the file is bad")

    for _ in range(2):
        with pytest.raises(DataError, match=r"^the file is bad; get another$"):
            found(source, fail, remedy="get another").load()
    assert not cache.exists()


def test_a_real_set_is_decoded_once(tmp_path, monkeypatch):
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    record = bytes([7]) + bytes(3072)
    for name in (*cifar.CIFAR10.forms[1].train, "test_batch.bin"):
        (folder / name).write_bytes(record * 3)
    first = load_dataset("cifar10", data_dir=tmp_path)
    monkeypatch.setattr(cifar, "_decode", None)  # calling it would fail
    second = load_dataset("cifar10", data_dir=tmp_path)
    assert second.fingerprint == first.fingerprint
    assert isinstance(second.x_train.base, np.memmap)  # not copied on the way
    assert first.x_train.flags.writeable
    assert second.class_names == first.class_names
    assert second.mean == first.mean
