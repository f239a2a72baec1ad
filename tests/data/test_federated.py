import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedvls.data import FederatedData
from fedvls.errors import DataError, FedvlsError, UsageError


def make(small, **changes):
    """`from_arrays` on the small set with some arrays or keywords replaced."""
    given = {**small, **changes}
    x, y = given.pop("x_train"), given.pop("y_train")
    return FederatedData.from_arrays(x, y, **given)


def test_floats_are_kept_and_not_normalised(small):
    data = make(small)
    assert data.x_train.dtype == np.float32
    assert np.array_equal(data.x_train, small["x_train"])
    assert data.mean is None
    assert data.std is None
    assert data.classes == 3
    assert data.class_names == ("0", "1", "2")
    assert data.sample_shape == (4,)
    assert data.spec is None


def test_bytes_are_kept_and_normalised_to_minus_one_to_one(small):
    images = np.zeros((6, 3, 2, 2), np.uint8)
    data = make(small, x_train=images, x_test=images[:3])
    assert data.x_train.dtype == np.uint8
    assert data.mean == data.std == (0.5, 0.5, 0.5)


def test_float64_is_kept(small):
    assert make(small, x_train=small["x_train"].astype(">f8")).x_train.dtype == np.dtype(np.float64)


@pytest.mark.parametrize("dtype", [bool, np.int32, np.int64, np.uint16, np.float16])
def test_other_numbers_become_float32_without_rescaling(small, dtype):
    x = (small["x_train"] % 2).astype(dtype)
    data = make(small, x_train=x)
    assert data.x_train.dtype == np.float32
    assert np.array_equal(data.x_train, small["x_train"] % 2)


def test_float32_and_float64_meet_in_float64(small):
    data = make(small, x_test=small["x_test"].astype(np.float64))
    assert data.x_train.dtype == data.x_test.dtype == np.float64


def test_lists_and_tensors_give_the_same_data_as_arrays(small):
    lists = make(small, **{key: value.tolist() for key, value in small.items()})
    tensors = make(small, **{key: torch.tensor(value) for key, value in small.items()})
    assert tensors.fingerprint == make(small).fingerprint
    assert np.array_equal(lists.y_train, tensors.y_train)
    assert lists.x_train.dtype == np.float64


def test_tensors_that_need_gradients_or_are_bfloat16_are_read(small):
    data = make(
        small,
        x_train=torch.tensor(small["x_train"], requires_grad=True),
        x_test=torch.tensor(small["x_test"], dtype=torch.bfloat16),
    )
    assert np.array_equal(data.x_test, small["x_test"])  # 0..11 are exact in bfloat16
    assert data.x_train.dtype == data.x_test.dtype == np.float32


def test_arrays_come_out_contiguous_and_writable(small):
    x = np.asfortranarray(small["x_train"])
    x.flags.writeable = False
    data = make(small, x_train=x)
    assert data.x_train.flags.c_contiguous
    torch.from_numpy(data.x_train)  # torch warns about read-only arrays, and warnings are errors here


def test_label_columns_floats_and_booleans_become_class_numbers(small):
    column = make(small, y_train=small["y_train"].astype(np.float32)[:, None])
    assert column.y_train.dtype == np.int64
    assert column.y_train.tolist() == [0, 1, 2, 0, 1, 2]
    binary = make(small, y_train=small["y_train"] > 1, y_test=small["y_test"] > 1)
    assert binary.y_train.tolist() == [0, 0, 1, 0, 0, 1]


def test_classes_count_labels_that_only_the_test_set_has(small):
    assert make(small, y_test=[0, 1, 7]).classes == 8


def test_class_names_set_the_number_of_classes(small):
    data = make(small, class_names=["cat", "dog", "eel", "fox"])
    assert data.classes == 4
    assert data.class_names == ("cat", "dog", "eel", "fox")


def test_one_number_serves_every_channel(small):
    images = np.zeros((6, 3, 2, 2), np.float32)
    data = make(small, x_train=images, x_test=images[:3], mean=0.25, std="0.5,0.6,0.7")
    assert data.mean == (0.25, 0.25, 0.25)
    assert data.std == (0.5, 0.6, 0.7)


X, Y = "x_train", "y_train"
NAN = np.full((6, 4), 0.0)
NAN[2, 3] = np.nan
INFINITE = np.zeros((3, 4), np.float32)
INFINITE[1, 0] = -np.inf

BAD = {
    "empty train": ({X: np.zeros((0, 4)), Y: []}, DataError, ["y_train", "empty"]),
    "empty train samples": ({X: np.zeros((0, 4))}, DataError, ["x_train", "empty"]),
    "empty test": ({"x_test": np.zeros((0, 4)), "y_test": []}, DataError, ["y_test", "empty"]),
    "length": ({Y: [0, 1, 2]}, DataError, ["x_train has 6", "y_train has 3"]),
    "test length": ({"y_test": [0, 1]}, DataError, ["x_test has 3", "y_test has 2"]),
    "sample shape": ({"x_test": np.zeros((3, 5))}, DataError, ["x_test", "(5,)", "(4,)"]),
    "one axis": ({X: np.zeros(6)}, DataError, ["x_train", "(6,)"]),
    "hollow samples": ({X: np.zeros((6, 0))}, DataError, ["x_train", "(6, 0)"]),
    "objects": ({X: np.array([[{}]] * 6)}, DataError, ["x_train", "dtype object"]),
    "text": ({X: np.array([["a"]] * 6)}, DataError, ["x_train", "dtype <U1"]),
    "complex": ({X: np.zeros((6, 4), complex)}, DataError, ["x_train", "complex128"]),
    "ragged": ({X: [[1], [1, 2]]}, DataError, ["x_train", "cannot be read as an array"]),
    "bytes against floats": ({X: np.zeros((6, 4), np.uint8)}, DataError, ["x_train is uint8", "x_test is float32"]),
    "nan": ({X: NAN}, DataError, ["x_train[2, 3] = nan"]),
    "infinite": ({"x_test": INFINITE}, DataError, ["x_test[1, 0] = -inf"]),
    "half label": ({Y: [0, 1, 1.5, 0, 1, 2]}, DataError, ["y_train[2] = 1.5", "whole"]),
    "nan label": ({Y: [0, 1, 2, np.nan, 1, 2]}, DataError, ["y_train[3] = nan", "whole"]),
    "negative label": ({"y_test": [0, -1, 1]}, DataError, ["y_test[1] = -1", "negative"]),
    "label too high": ({"classes": 2}, DataError, ["y_train[2] = 2", "0..1"]),
    "identifier as label": ({Y: [0, 1, 2, 0, 10**15, 2]}, DataError, ["y_train[4] = 1000000000000000", "999999"]),
    "text labels": ({Y: list("abcabc")}, DataError, ["y_train", "dtype <U1"]),
    "one-hot labels": ({Y: np.eye(6)}, DataError, ["y_train", "(6, 6)"]),
    "one class": ({Y: [0] * 6, "y_test": [0] * 3}, UsageError, ["classes = 1", "at least 2"]),
    "classes no number": ({"classes": "three"}, UsageError, ["classes = 'three'", "whole number"]),
    "too few names": ({"class_names": ["a", "b"], "classes": 3}, UsageError, ["2 names", "3 classes"]),
    "std zero": ({"mean": 0.0, "std": 0.0}, UsageError, ["std = (0.0,)", "above 0"]),
    "std negative": ({"mean": 0.0, "std": -1.0}, UsageError, ["std = (-1.0,)", "above 0"]),
    "std infinite": ({"mean": 0.0, "std": np.inf}, UsageError, ["std = inf", "finite"]),
    "mean channels": ({"mean": [0.1, 0.2], "std": 1.0}, UsageError, ["mean = [0.1, 0.2]", "2 values", "1 channel"]),
    "std channels": ({"mean": 0.1, "std": (1, 1, 1)}, UsageError, ["std = (1, 1, 1)", "3 values", "1 channel"]),
    "mean alone": ({"mean": 0.1}, UsageError, ["mean = (0.1,)", "both or neither"]),
    "mean no number": ({"mean": "dark", "std": 1.0}, UsageError, ["mean = 'dark'", "number"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named_in_one_line(small, case):
    changes, kind, words = BAD[case]
    with pytest.raises(FedvlsError) as caught:
        make(small, **changes)
    message = str(caught.value)
    assert type(caught.value) is kind
    assert "\n" not in message
    assert all(word in message for word in words), message


def test_direct_construction_is_checked_too(small):
    with pytest.raises(DataError, match=r"y_train\[2\] = 2 is outside 0\.\.1"):
        FederatedData(**small, classes=2)


def test_fingerprint_is_the_same_for_the_same_content(small):
    copies = {key: value.copy() for key, value in small.items()}
    first = make(small, name="one", class_names="abc")
    assert first.fingerprint == make(copies, name="other").fingerprint
    assert len(first.fingerprint) == 16
    assert int(first.fingerprint, 16) >= 0


def test_fingerprint_changes_with_any_change(small):
    def nudged(key):
        array = small[key].copy()
        array[0] = (array[0] + 1) % 3
        return {key: array}

    images = {"x_train": small["x_train"].reshape(6, 1, 2, 2), "x_test": small["x_test"].reshape(3, 1, 2, 2)}
    variants = [
        {},
        *(nudged(key) for key in small),
        images,
        {"x_train": small["x_train"].astype(np.float64)},
        {"mean": 0.0, "std": 1.0},
        {"mean": 0.1, "std": 1.0},
        {"mean": 0.0, "std": 2.0},
        {"classes": 4},
        {"x_train": small["x_train"][:5], "y_train": small["y_train"][:5]},
    ]
    prints = [make(small, **variant).fingerprint for variant in variants]
    assert len(set(prints)) == len(variants)


def test_description_survives_json(small):
    data = make(small, name="ward", mean=1, std=2)
    described = json.loads(json.dumps(data.describe()))
    assert described == {
        "name": "ward",
        "train_samples": 6,
        "test_samples": 3,
        "sample_shape": [4],
        "dtype": "float32",
        "classes": 3,
        "class_names": ["0", "1", "2"],
        "mean": [1.0],
        "std": [2.0],
        "fingerprint": data.fingerprint,
    }
    assert "6 train" in repr(data)
    assert "\n" not in repr(data)


def test_data_travels_to_worker_processes(small):
    data = replace(make(small), spec={"name": "ward"})
    arrived = pickle.loads(pickle.dumps(data))
    assert arrived.fingerprint == data.fingerprint
    assert arrived.spec == {"name": "ward"}
