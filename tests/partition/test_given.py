"""Clients the data came with."""

import numpy as np
import pytest

from fedvls.data import FederatedData
from fedvls.errors import PartitionError
from fedvls.partition import get_partition, given, iid

LABELS = np.array([0, 1, 1, 2, 2, 2])


def test_every_client_keeps_what_it_has_whatever_the_seed():
    xs = [np.ones((n, 4)) for n in (2, 3, 1)]
    ys = [[0, 1], [1, 2, 2], [0]]
    data = FederatedData.from_clients(xs, ys, np.ones((1, 4)), [2])
    splits = [given().split(data.y_train, data.classes, 3, seed, given=data.clients) for seed in (0, 7)]
    assert splits[0].fingerprint == splits[1].fingerprint
    assert splits[0].sizes.tolist() == [2, 3, 1]
    assert splits[0].counts.tolist() == [[1, 1, 0], [0, 1, 2], [1, 0, 0]]
    assert [own.tolist() for own in splits[0].indices] == [[0, 1], [2, 3, 4], [5]]


def test_samples_without_a_client_are_left_out_and_the_order_is_kept():
    split = given().split(LABELS, 3, 2, 0, given=(np.array([5, 0]), np.array([3], dtype=np.int32)))
    assert [own.tolist() for own in split.indices] == [[5, 0], [3]]


def test_it_is_known_by_name():
    assert get_partition("given").spec == {"name": "given"}


def told(**keywords):
    with pytest.raises(PartitionError) as caught:
        given().split(LABELS, 3, 2, 0, **keywords)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_does_not_fit_is_told():
    assert told() == (
        "partition 'given': the data do not say which of 2 clients holds what: "
        "make them with FederatedData.from_clients, or choose another partition"
    )
    assert told(given=[np.arange(6)]) == "partition 'given': 2 clients, but the data came from 1: use 1 clients"
    assert "client 1 of 2 holds sample 6: there are 6" in told(given=[np.array([0]), np.array([1, 6])])
    assert "client 0 of 2 holds sample -1" in told(given=[np.array([-1]), np.array([1])])
    assert "sample 3 is held more than once among 2 clients" in told(given=[np.array([3]), np.array([1, 3])])
    assert "client 1 of 2 gets none of the 6 training samples" in told(given=[np.array([3]), np.array([], dtype=int)])


def test_other_partitions_do_not_look_at_what_they_do_not_need():
    plain = iid().split(LABELS, 3, 2, 0)
    told = iid().split(LABELS, 3, 2, 0, given=[np.array([99])], domains=np.zeros(1))
    assert plain.fingerprint == told.fingerprint
