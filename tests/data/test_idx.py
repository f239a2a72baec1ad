import gzip

import numpy as np
import pytest

from fedvls.data.idx import read_idx
from fedvls.errors import DataError

IMAGES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


@pytest.mark.parametrize("dtype", ["u1", "i1", "<i2", "<i4", "<f4", "<f8"])
def test_every_type_of_the_format_is_read_in_native_order(tmp_path, as_idx, dtype):
    array = np.array([[1, 2, 3], [100, 5, 6]]).astype(dtype)
    (tmp_path / "a").write_bytes(as_idx(array))
    read = read_idx(tmp_path / "a")
    assert read.dtype == array.dtype
    assert read.dtype.isnative
    assert np.array_equal(read, array)


@pytest.mark.parametrize("name", ["a", "a.gz"])
@pytest.mark.parametrize("packed", [True, False])
def test_content_not_name_decides_whether_a_file_is_packed(tmp_path, as_idx, name, packed):
    content = as_idx(IMAGES)
    (tmp_path / name).write_bytes(gzip.compress(content) if packed else content)
    read = read_idx(tmp_path / name)
    assert np.array_equal(read, IMAGES)
    assert read.flags.writeable


def bad_files(whole):
    packed = gzip.compress(whole)
    return {
        "empty": (b"", "not an IDX file"),
        "html": (b"<html>not found</html>", "not an IDX file: it starts with 3c 68 74 6d"),
        "little-endian magic": (bytes(reversed(whole[:4])) + whole[4:], "not an IDX file"),
        "unknown type": (b"\0\0\x07" + whole[3:], "type code is 0x07"),
        "no axes": (b"\0\0\x08\0", "no axes"),
        "cut in the header": (whole[:10], "cut off in its header"),
        "cut in the values": (whole[:-1], r"shape \(2, 3, 4\) needs 24 bytes of values, it has 23"),
        "too long": (whole + b"\0", "too long"),
        "claims 2**64 values": (whole[:4] + b"\xff" * 12 + whole[16:], "cut off"),
        "cut while packed": (packed[:-9], "damaged"),
        "packed sum wrong": (packed[:-8] + b"\0\0\0\0" + packed[-4:], "damaged"),
        "packed stream wrong": (packed[:10] + b"\xff" * 8 + packed[18:], "damaged"),
        "packed but no idx": (gzip.compress(b"hello"), "not an IDX file"),
    }


@pytest.mark.parametrize("case", bad_files(bytes(40)))
def test_a_bad_file_is_named_in_one_line(tmp_path, as_idx, case):
    content, words = bad_files(as_idx(IMAGES))[case]
    path = tmp_path / "labels"
    path.write_bytes(content)
    with pytest.raises(DataError, match=words) as caught:
        read_idx(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"none cannot be read: No such file"):
        read_idx(tmp_path / "none")
