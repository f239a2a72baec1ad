"""Data that are divided among clients already, and data of several domains."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedvls.data import FederatedData
from fedvls.errors import DataError, FedvlsError, UsageError

RANDOM = np.random.RandomState(4)
XS = [RANDOM.normal(size=(n, 4)).astype(np.float32) for n in (3, 1, 5)]
YS = [np.array([0, 1, 2]), np.array([1]), np.array([2, 2, 0, 1, 1])]
TEST = RANDOM.normal(size=(2, 4)).astype(np.float32), np.array([0, 2])


def test_arrays_of_clients_are_joined_and_their_owners_kept():
    data = FederatedData.from_clients(XS, YS, *TEST, name="wards")
    assert np.array_equal(data.x_train, np.concatenate(XS))
    assert data.y_train.tolist() == [0, 1, 2, 1, 2, 2, 0, 1, 1]
    assert [own.tolist() for own in data.clients] == [[0, 1, 2], [3], [4, 5, 6, 7, 8]]
    assert all(own.dtype == np.int64 for own in data.clients)
    assert data.classes == 3
    assert data.x_train.dtype == np.float32
    assert "3 clients" in repr(data)


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("form", [np.asarray, torch.tensor])
def test_from_arrays_knows_lists_of_clients(kind, form):
    data = FederatedData.from_arrays(kind(form(x) for x in XS), kind(form(y) for y in YS), *TEST)
    assert data.fingerprint == FederatedData.from_clients(XS, YS, *TEST).fingerprint


def test_labels_of_clients_may_be_lists_or_columns():
    data = FederatedData.from_arrays(XS, [y.tolist() for y in YS], *TEST)
    columns = FederatedData.from_arrays(XS, [y[:, None] for y in YS], *TEST)
    assert data.fingerprint == columns.fingerprint == FederatedData.from_clients(XS, YS, *TEST).fingerprint


def test_clients_of_equal_size_are_clients_too():
    data = FederatedData.from_arrays([XS[0]] * 3, [YS[0]] * 3, *TEST)
    assert [len(own) for own in data.clients] == [3, 3, 3]


def test_clients_of_one_sample_each_are_clients():
    data = FederatedData.from_arrays([x[:1] for x in XS], [y[:1] for y in YS], *TEST)
    assert [own.tolist() for own in data.clients] == [[0], [1], [2]]


def test_a_list_of_images_with_single_labels_is_one_set_of_samples():
    images = [RANDOM.normal(size=(3, 2, 2)) for _ in range(4)]
    for labels in ([0, 1, 2, 1], np.array([0, 1, 2, 1]), [np.array([n]) for n in (0, 1, 2, 1)], list(np.arange(4) % 3)):
        data = FederatedData.from_arrays(images, labels, images[:2], [0, 1])
        assert data.clients is None
        assert data.x_train.shape == (4, 3, 2, 2)


def test_rows_of_numbers_are_one_set_of_samples():
    data = FederatedData.from_arrays([[1.0, 2.0], [3.0, 4.0]], [0, 1], [[1.0, 2.0]], [0])
    assert data.clients is None


def test_test_sets_of_clients_are_joined():
    data = FederatedData.from_clients(XS, YS, XS[:2], YS[:2])
    assert data.y_test.tolist() == [0, 1, 2, 1]
    assert np.array_equal(data.x_test, np.concatenate(XS[:2]))


def test_bytes_of_clients_stay_bytes_with_their_scale():
    images = [np.full((n, 3, 2, 2), n, np.uint8) for n in (2, 3)]
    data = FederatedData.from_clients(images, [[0, 1], [1, 0, 1]], images[0], [0, 1])
    assert data.x_train.dtype == np.uint8
    assert data.mean == (0.5, 0.5, 0.5)


def test_floats_of_different_width_meet():
    data = FederatedData.from_clients([XS[0], XS[1].astype(np.float64)], YS[:2], *TEST)
    assert data.x_train.dtype == np.float64


BAD = {
    "numbers of clients": (XS, YS[:2], "x_train comes from 3 clients but y_train from 2"),
    "no client": ([], [], "x_train comes from no client"),
    "no list": (np.zeros((2, 3, 4)), YS, "clients come as lists, .* not as ndarray"),
    "lengths": ([XS[0], XS[1]], [YS[0], YS[2]], "client 1's x_train has 1 samples but client 1's y_train has 5 labels"),
    "shapes": ([XS[0], np.zeros((1, 5))], YS[:2], r"client 1's x_train has samples of shape \(5,\) but client 0 of"),
    "types": ([XS[0], np.zeros((1, 4), np.uint8)], YS[:2], "client 1's x_train is uint8 but client 0's is float32"),
    "empty client": ([XS[0], XS[1][:0]], [YS[0], YS[1][:0]], "client 1's x_train is empty"),
    "nan": ([XS[0], XS[1] * np.nan], YS[:2], r"client 1's x_train\[0, 0\] = nan: every value must be finite"),
    "label": ([XS[0], XS[1]], [YS[0], [-1]], r"client 1's y_train\[0\] = -1 is negative"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_with_a_client_is_named(case):
    xs, ys, words = BAD[case]
    with pytest.raises(DataError, match=words) as caught:
        FederatedData.from_clients(xs, ys, *TEST)
    assert "\n" not in str(caught.value)


@pytest.fixture
def data(small):
    return FederatedData.from_arrays(small["x_train"], small["y_train"], small["x_test"], small["y_test"])


@pytest.mark.parametrize(
    ("clients", "words"),
    [
        ([[0, 1], [1, 2]], r"clients\[1\] holds position 1, which is taken already"),
        ([[0, 0]], r"clients\[0\] holds position 0, which is taken already"),
        ([[0, 6]], r"clients\[0\] holds position 6: there are 6 training samples"),
        ([[-1]], r"clients\[0\] holds position -1"),
        ([[0], []], r"clients\[1\] has dtype float64 and shape \(0,\)"),
        ([[0.5]], r"clients\[0\] has dtype float64"),
        ([[[0]]], r"clients\[0\] has dtype int64 and shape \(1, 1\)"),
        ([], "clients is empty"),
    ],
)
def test_positions_that_do_not_fit_are_named(data, clients, words):
    with pytest.raises(DataError, match=words):
        replace(data, clients=tuple(np.array(own) for own in clients))


def test_positions_may_leave_samples_out_and_come_in_any_order(data):
    kept = replace(data, clients=(np.array([5, 0], np.uint8), np.array([2])))
    assert [own.tolist() for own in kept.clients] == [[5, 0], [2]]


def with_domains(data, **changes):
    given = {"domains": ("a", "b"), "domain_train": [0, 0, 0, 1, 1, 1], "domain_test": [1, 0, 0], **changes}
    return replace(data, **given)


def test_domains_are_kept_as_numbers_of_names(data):
    two = with_domains(data)
    assert two.domains == ("a", "b")
    assert two.domain_train.dtype == two.domain_test.dtype == np.int64
    assert two.describe()["domains"] == {
        "a": {"train_samples": 3, "test_samples": 2},
        "b": {"train_samples": 3, "test_samples": 1},
    }
    assert "domains a, b" in repr(two)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"domain_train": None}, "belong together"),
        ({"domain_test": None}, "belong together"),
        ({"domains": ()}, "belong together"),
        ({"domains": ("a", "a")}, "'a' must be a name of its own"),
        ({"domains": ("a", "")}, "'' must be a name of its own"),
        ({"domain_train": [0, 1]}, "domain_train has 2 entries for 6 samples"),
        ({"domain_test": [0, 1, 2]}, r"domain_test\[2\] = 2: there are 2 domains \(a, b\)"),
        ({"domain_test": [0, 0, 0]}, "domain 'b' has no test sample"),
        ({"domain_train": [0, 0, 0, 1, 1, -1]}, r"domain_train\[5\] = -1 is negative"),
    ],
)
def test_domains_that_do_not_fit_are_named(data, changes, words):
    with pytest.raises(FedvlsError, match=words):
        with_domains(data, **changes)


def test_the_fingerprint_of_data_without_these_fields_is_as_it_was(small):
    # worked out before the fields existed
    data = FederatedData.from_arrays(small["x_train"], small["y_train"], small["x_test"], small["y_test"])
    assert data.fingerprint == "aa5785c54d982ffd"
    images = np.arange(6 * 12, dtype=np.uint8).reshape(6, 3, 2, 2)
    data = FederatedData.from_arrays(images, small["y_train"], images[:3], small["y_test"])
    assert data.fingerprint == "a68fb880c4a697a5"


def test_the_fingerprint_tells_every_one_of_the_fields_apart(data, small):
    tokens = {"x_train": small["x_train"].astype(int), "x_test": small["x_test"].astype(int)}
    variants = [
        data,
        replace(data, clients=([0, 1, 2], [3, 4, 5])),
        replace(data, clients=([0, 1], [2, 3, 4, 5])),
        replace(data, clients=([0, 1, 2, 3, 4, 5],)),
        with_domains(data),
        with_domains(data, domains=("a", "c")),
        with_domains(data, domain_train=[1, 0, 0, 1, 1, 1]),
        with_domains(data, domain_test=[0, 1, 0]),
        replace(with_domains(data), clients=([0, 1, 2], [3, 4, 5])),
        replace(data, **tokens, vocabulary=30),
        replace(data, **tokens, vocabulary=31),
    ]
    assert len({variant.fingerprint for variant in variants}) == len(variants)


def test_everything_travels_to_worker_processes_and_json(data):
    full = replace(with_domains(data), clients=([0, 1, 2], [3, 4, 5]))
    arrived = pickle.loads(pickle.dumps(full))
    assert arrived.fingerprint == full.fingerprint
    described = json.loads(json.dumps(full.describe()))
    assert described["clients"] == [3, 3]
    assert described["domains"].keys() == {"a", "b"}


def test_tokens_are_kept_as_whole_numbers_and_never_scaled():
    tokens = np.array([[2, 7, 0], [2, 1, 9]])
    for dtype in (np.int64, np.uint8, np.int32, ">i2"):
        data = FederatedData.from_arrays(tokens.astype(dtype), [0, 1], tokens[:1], [1], vocabulary=10)
        assert data.x_train.dtype == data.x_test.dtype == np.int32
        assert data.x_train.tolist() == tokens.tolist()
        assert data.mean is data.std is None
        assert data.vocabulary == data.describe()["vocabulary"] == 10
        assert "vocabulary of 10" in repr(data)


def test_tokens_of_clients_are_checked_by_client():
    tokens = [np.array([[2, 7]]), np.array([[2, 1], [0, 11]])]
    data = FederatedData.from_clients(tokens, [[0], [1, 0]], tokens[0], [0], vocabulary=12)
    assert data.x_train.tolist() == [[2, 7], [2, 1], [0, 11]]
    with pytest.raises(DataError, match=r"client 1's x_train\[1, 1\] = 11 is outside 0\.\.9 \(vocabulary = 10\)"):
        FederatedData.from_clients(tokens, [[0], [1, 0]], tokens[0], [0], vocabulary=10)


@pytest.mark.parametrize(
    ("x", "keywords", "kind", "words"),
    [
        ([[0, 10], [1, 2]], {}, DataError, r"x_train\[0, 1\] = 10 is outside 0\.\.9 \(vocabulary = 10\)"),
        ([[0, 1], [-1, 2]], {}, DataError, r"x_train\[1, 0\] = -1 is outside 0\.\.9"),
        ([[0.0, 1.0], [1.0, 2.0]], {}, DataError, "x_train has dtype float64: tokens .* must be whole numbers"),
        ([0, 1], {}, DataError, r"x_train has shape \(2,\): at least one sample"),
        ([[0, 1], [1, 2]], {"mean": 0.5, "std": 0.5}, UsageError, "tokens are not scaled"),
        ([[0, 1], [1, 2]], {"vocabulary": 0}, UsageError, "vocabulary = 0 must be a whole number of at least 1"),
        ([[0, 1], [1, 2]], {"vocabulary": 2.5}, UsageError, r"vocabulary = 2\.5 must be"),
        ([[0, 1], [1, 2]], {"vocabulary": True}, UsageError, "vocabulary = True must be"),
    ],
)
def test_tokens_that_are_none_are_named(x, keywords, kind, words):
    with pytest.raises(kind, match=words):
        FederatedData.from_arrays(np.array(x), [0, 1], np.array([[0, 1]]), [0], **{"vocabulary": 10, **keywords})
