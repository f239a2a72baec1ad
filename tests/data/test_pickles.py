"""What a pickle may hold, and that one that asks for more does nothing at all."""

import os
import pickle
import struct
import subprocess

import numpy as np
import pytest

from fedvls.data import pickles
from fedvls.data.pickles import load_pickle
from fedvls.errors import DataError

PROTOCOLS = range(6)
BEFORE_FIVE = range(5)  # numpy writes arrays in another way from protocol 5 on


def loaded(value, protocol):
    return load_pickle(pickle.dumps(value, protocol=protocol), "batch")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_plain_values_come_back(protocol):
    value = {"a": [1, 2.5, None, True, 10**30, -1], "b": (("x",), b"\x00\xff", "ü"), 3: {}}
    assert loaded(value, protocol) == value


@pytest.mark.parametrize("protocol", BEFORE_FIVE)
@pytest.mark.parametrize("dtype", ["u1", "i1", "<i2", ">i4", "<i8", ">f4", "<f8", "?"])
def test_arrays_of_numbers_come_back(protocol, dtype):
    array = np.arange(24).reshape(2, 3, 4).astype(dtype)
    for one in (array, np.asfortranarray(array), array[0, 0, 0:1]):
        read = loaded({"data": one}, protocol)["data"]
        assert isinstance(read, np.ndarray)
        assert read.dtype == one.dtype.newbyteorder("=")
        assert np.array_equal(read, one)


@pytest.mark.parametrize("protocol", BEFORE_FIVE)
def test_numpy_numbers_become_plain_ones(protocol):
    assert loaded([np.int64(7), np.float32(0.5), np.uint8(255)], protocol) == [7, 0.5, 255]


def test_what_python_2_wrote_is_read_with_keys_of_bytes():
    # pickle.dumps({'data': numpy.array([[1, 2]], 'u1'), 'labels': [3]}, 2) of Python 2.7, numpy 1.16
    written = (
        b"\x80\x02}q\x00(U\x04dataq\x01cnumpy.core.multiarray\n_reconstruct\nq\x02cnumpy\nndarray\nq\x03K\x00\x85q\x04"
        b"U\x01bq\x05\x87q\x06Rq\x07(K\x01K\x01K\x02\x86q\x08cnumpy\ndtype\nq\tU\x02u1q\nK\x00K\x01\x87q\x0bRq\x0c"
        b"(K\x03U\x01|q\rNNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tq\x0eb\x89U\x02\x01\x02q\x0ftq\x10b"
        b"U\x06labelsq\x11]q\x12K\x03au."
    )
    batch = load_pickle(written, "batch")
    assert batch[b"labels"] == [3]
    assert batch[b"data"].dtype == np.uint8
    assert batch[b"data"].tolist() == [[1, 2]]


class Evil:
    """Pickles as a call of something."""

    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __reduce__(self):
        return self.call, self.arguments


@pytest.fixture
def mark(tmp_path):
    return tmp_path / "it-ran"


CALLS = {
    "system": lambda mark: Evil(os.system, f"touch {mark}"),
    "eval": lambda mark: Evil(eval, f"open({str(mark)!r}, 'w')"),
    "exec": lambda mark: Evil(exec, f"open({str(mark)!r}, 'w')"),
    "open": lambda mark: Evil(open, str(mark), "w"),
    "Popen": lambda mark: Evil(subprocess.Popen, ["touch", str(mark)]),
    "check_output": lambda mark: Evil(subprocess.check_output, ["touch", str(mark)]),
}
NESTS = {
    "bare": lambda evil: evil,
    "in a batch": lambda evil: {b"labels": evil, b"data": np.zeros(2, np.uint8)},
    "deep": lambda evil: [({"a": [(evil,)]},)],
    "as a key": lambda evil: {evil: 1},
    "twice": lambda evil: [evil, evil],
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("nest", NESTS)
@pytest.mark.parametrize("name", CALLS)
def test_a_pickle_that_calls_something_is_refused_before_it_does(mark, name, nest, protocol):
    pickled = pickle.dumps(NESTS[nest](CALLS[name](mark)), protocol=protocol)
    words = rf"^data_batch_1 is refused: it asks for [\w.]+\.{name}, and only arrays[^\n]*$"
    with pytest.raises(DataError, match=words):
        load_pickle(pickled, "data_batch_1")
    assert not mark.exists()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_array_of_objects_is_refused_before_they_are_made(mark, protocol):
    hidden = np.array([1, CALLS["system"](mark)], dtype=object)
    with pytest.raises(DataError, match=r"^batch is "):
        loaded({"data": hidden}, protocol)
    assert not mark.exists()


@pytest.mark.parametrize(
    "name",
    [
        "os.system",
        "numpy.load",
        "numpy.fromfile",
        "numpy.core.multiarray.fromfile",
        "numpy.core.numeric._frombuffer",
        "numpy.lib.npyio.load",
        "_codecs.decode",
        "_codecs.lookup",
        "builtins.list",
        "collections.OrderedDict",
        "copyreg._reconstructor",
        "numpy.ndarray.tofile",
        "numpy.ndarray.__class__",
        "fedvls.data.pickles.load_pickle",
    ],
)
@pytest.mark.parametrize("form", ["global", "stack", "instance"])
def test_every_other_name_is_refused_whatever_way_it_is_asked_for(name, form):
    module, _, attribute = name.rpartition(".")
    short = b"\x8c%c%s" % (len(module), module.encode()) + b"\x8c%c%s" % (len(attribute), attribute.encode())
    pickled = {
        "global": f"c{module}\n{attribute}\n)R.".encode(),
        "stack": b"\x80\x04" + short + b"\x93)R.",
        "instance": f"(i{module}\n{attribute}\n.".encode(),
    }[form]
    with pytest.raises(DataError, match=r"^b is refused: it asks for [\w.]+, and only arrays"):
        load_pickle(pickled, "b")


def test_objects_outside_the_file_are_refused():
    for pickled in (b"Pelsewhere\n.", b"\x80\x02K\x01Q."):
        with pytest.raises(DataError, match="refers to an object outside the file"):
            load_pickle(pickled, "b")


def refuses(pickled):
    with pytest.raises(DataError, match=r"^b is not a complete pickle of arrays: [^\n]+$"):
        load_pickle(pickled, "b")


def array_pickle(code="u1", order="|", shape="(I2\nt", raw=b"ab", fortran=b"I00\n", mark=b"C"):
    """A pickled array (protocol 0 but for its bytes) with its parts as given."""
    return (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n"
        + shape.encode()
        + f"cnumpy\ndtype\n(S'{code}'\nI0\nI1\ntR(I3\nS'{order}'\nNNNI-1\nI-1\nI0\ntb".encode()
        + fortran
        + (b"C" + bytes([len(raw)]) + raw if mark == b"C" else mark + raw + b"\n")
        + b"tb."
    )


def test_the_hand_made_array_is_one():
    assert load_pickle(array_pickle(), "b").tolist() == [97, 98]


@pytest.mark.parametrize(
    "parts",
    [
        {"code": "O8"},
        {"code": "V2"},
        {"code": "S2"},
        {"code": "u3"},
        {"code": "u1,u1"},
        {"order": "x"},
        {"raw": b"abc"},
        {"raw": b""},
        {"shape": "(I-2\nt"},
        {"shape": "(I3\nt"},
        {"shape": "(F2.0\nt"},
        {"shape": "I2\n"},
        {"mark": b"V"},
        {"shape": "(I4611686018427387904\nI4\nt"},
    ],
)
def test_an_array_whose_parts_do_not_fit_is_refused(parts):
    refuses(array_pickle(**parts))


@pytest.mark.parametrize(
    "pickled",
    [
        b"",
        b"hello",
        b"\x80\x02.",
        b"\x80\x09N.",
        b"cnumpy\nndarray\n(I3\ntR.",  # an array made by calling the class
        b"\x80\x02cnumpy\nndarray\n)\x81.",
        b"c_codecs\nencode\n(Vabc\nVutf-16\ntR.",
        b"c_codecs\nencode\n(I3\ntR.",
        b"cnumpy.core.multiarray\nscalar\n(I3\nVabc\ntR.",
        b"cnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\n(S'i8'\ntRC\x02abtR.",
        b"\x80\x04\x8e" + struct.pack("<Q", 2**60) + b"abc.",  # claims more bytes than there are
    ],
)
def test_bytes_that_are_no_pickle_of_arrays_are_refused(pickled):
    refuses(pickled)


@pytest.mark.parametrize(
    "state", [b"(dS'__defaults__'\n(tsb", b"(N(dS'__call__'\nI1\nstb", b"(N(dS'__class__'\nI1\nstb"]
)
@pytest.mark.parametrize("name", ["_codecs\nencode", "numpy\nndarray", "numpy\ndtype"])
def test_a_pickle_cannot_change_the_reader_for_the_next_one(name, state):
    refuses(b"c" + name.encode() + b"\n" + state + b".")
    assert loaded(np.arange(3), 2).tolist() == [0, 1, 2]


def test_every_cut_and_every_flip_gives_values_or_one_line():
    whole = pickle.dumps({b"data": np.arange(12, dtype=np.uint8).reshape(3, 4), b"labels": [1, 2, 3]}, protocol=2)
    messages = []
    for position in range(len(whole)):
        for changed in (whole[:position], whole[:position] + bytes([whole[position] ^ 0x11]) + whole[position + 1 :]):
            try:
                load_pickle(changed, "b")
            except DataError as error:
                messages.append(str(error))
    assert len(messages) > len(whole)
    assert not any("\n" in message for message in messages)


def test_seven_names_are_admitted_and_none_of_them_is_the_real_thing():
    assert len(pickles._ADMITTED) == 7
    for (module, _), stand_in in pickles._ADMITTED.items():
        assert type(stand_in).__module__ == "fedvls.data.pickles", module
        assert not hasattr(stand_in, "__dict__")
