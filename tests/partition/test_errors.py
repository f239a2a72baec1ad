"""Every impossible request is answered by one line that names the value and says what to do."""

import numpy as np
import pytest

from fedvls.errors import DataError, PartitionError, UsageError
from fedvls.partition import (
    Partition,
    dirichlet,
    dirichlet_client,
    dirichlet_plain,
    get_partition,
    iid,
    quantity,
    shards,
)

LABELS = np.repeat(np.arange(10), 10)


def message(kind, call, *args, **kwargs):
    """The one line `call` fails with."""
    with pytest.raises(kind) as caught:
        call(*args, **kwargs)
    assert type(caught.value) is kind
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (np.zeros((2, 3), dtype=int), "labels have shape (2, 3): they must be one row of class numbers"),
        (np.array([0.0, 1.0]), "labels have type float64: they must be whole numbers from 0 to 9"),
        (np.array([True, False]), "labels have type bool: they must be whole numbers from 0 to 9"),
        (np.array([0, 1, 10, 12]), "label 10 at position 2 is not a class: with 10 classes, labels go from 0 to 9"),
        (np.array([0, 1, 2, -1]), "label -1 at position 3 is not a class: with 10 classes, labels go from 0 to 9"),
        ([], "there are no training labels: a partition needs at least one sample per client"),
    ],
)
def test_labels_that_are_not_classes_are_named(labels, expected):
    assert message(DataError, iid().split, labels, 10, 1, 0) == expected


@pytest.mark.parametrize("clients", [0, -3, 2.5, True, "4", None])
def test_a_number_of_clients_that_is_none_is_named(clients):
    expected = f"clients = {clients!r} must be a whole number of at least 1"
    assert message(UsageError, iid().split, LABELS, 10, clients, 0) == expected


def test_a_number_of_classes_that_is_none_is_named():
    assert "classes = 0 must be" in message(UsageError, iid().split, LABELS, 0, 2, 0)


@pytest.mark.parametrize("seed", [-1, 2**32, 0.5, None])
def test_a_seed_numpy_cannot_take_is_named(seed):
    expected = f"partition seed = {seed!r} must be a whole number from 0 to 4294967295"
    assert message(UsageError, iid().split, LABELS, 10, 2, seed) == expected


@pytest.mark.parametrize("build", [iid, dirichlet, quantity, shards])
def test_more_clients_than_samples_are_refused(build):
    expected = "12 clients but only 7 training samples: use at most 7 clients"
    assert message(PartitionError, build().split, LABELS[:7], 10, 12, 0) == expected


def test_a_client_left_empty_is_named():
    def first_takes_all(labels, classes, clients, random):
        return [np.arange(len(labels)), np.array([], dtype=int)], 1

    text = message(PartitionError, Partition(first_takes_all, name="greedy").split, LABELS, 10, 2, 0)
    problem, remedy = text.rsplit(": ", 1)
    assert problem == "partition 'greedy': client 1 of 2 gets none of the 100 training samples"
    assert remedy == "use fewer clients or another partition"


@pytest.mark.parametrize("build", [dirichlet, dirichlet_plain, dirichlet_client])
@pytest.mark.parametrize("beta", [0.0, -0.5])
def test_dirichlet_needs_a_positive_beta(build, beta):
    assert f"beta = {beta} must be above 0" in message(UsageError, build, beta=beta)


@pytest.mark.parametrize("build", [dirichlet, dirichlet_plain])
@pytest.mark.parametrize("key", ["min_size", "max_tries"])
def test_dirichlet_needs_positive_limits(build, key):
    assert f"{key} = 0 must be a whole number of at least 1" in message(UsageError, build, **{key: 0})


@pytest.mark.parametrize("name", ["dirichlet", "dirichlet-plain"])
def test_a_minimum_the_data_cannot_meet_is_refused_before_any_draw(name):
    assert message(PartitionError, get_partition(name).split, LABELS, 10, 11, 0) == (
        f"partition '{name}': 11 clients with at least 10 samples each (min_size) need 110 samples, but there are 100: "
        "use at most 10 clients or lower min_size"
    )


def test_a_beta_too_small_is_named_after_a_bounded_number_of_tries():
    text = message(PartitionError, dirichlet(beta=0.05, max_tries=7).split, LABELS, 10, 10, 0)
    best = int(text.split("left a client with ")[1].split(")")[0])
    assert text == (
        "partition 'dirichlet': none of 7 tries with beta = 0.05 gave each of 10 clients at least 10 of the "
        f"100 samples (the best one left a client with {best}): raise beta, use fewer clients or lower min_size"
    )
    # The minimum it names is the largest one that works with these tries.
    assert dirichlet(beta=0.05, min_size=best, max_tries=7).split(LABELS, 10, 10, 0).sizes.min() == best
    message(PartitionError, dirichlet(beta=0.05, min_size=best + 1, max_tries=7).split, LABELS, 10, 10, 0)


@pytest.mark.parametrize("build", [dirichlet, dirichlet_plain])
def test_shares_that_underflow_count_as_failed_tries(build):
    # 1e-9: nearly every gamma draw is zero, so the shares are 0 / 0
    assert "none of 5 tries" in message(PartitionError, build(1e-9, max_tries=5).split, LABELS, 10, 2, 0)


@pytest.mark.parametrize("name", ["quantity", "shards", "shards-imbalanced"])
def test_classes_per_client_must_be_possible(name):
    assert "classes_per_client = 0 must be" in message(UsageError, get_partition, name, classes_per_client=0)
    partition = get_partition(name, classes_per_client=11)
    expected = "classes_per_client = 11, but there are only 10 classes: use at most 10"
    assert message(UsageError, partition.split, LABELS, 10, 10, 0) == expected


@pytest.mark.parametrize(
    ("clients", "problem", "works"),
    [(7, "client 5 would have no class", "5 or 10"), (3, "no class would have a client", "5")],
)
def test_quantity_names_numbers_of_clients_that_work(clients, problem, works):
    assert message(PartitionError, quantity(2).split, LABELS, 10, clients, 0) == (
        f"partition 'quantity': with {clients} clients, 10 classes and classes_per_client = 2, {problem}: "
        f"use a multiple of 5 clients (such as {works})"
    )


@pytest.mark.parametrize("classes", range(1, 9))
def test_every_number_of_clients_that_quantity_names_works(classes):
    labels = np.repeat(np.arange(classes), 40)
    for per_client in range(1, classes + 1):
        step = classes // np.gcd(classes, per_client)
        for clients in (step, 2 * step, 3 * step):
            assert quantity(per_client).split(labels, classes, clients, 0).sizes.min() >= 1


def test_quantity_names_the_client_whose_classes_have_no_samples():
    text = message(PartitionError, quantity().split, LABELS[:40], 10, 10, 0)
    assert "client 4 of 10 gets none of the 40 training samples" in text


def test_an_unknown_upper_bound_is_answered_with_the_known_ones():
    assert "'auto', 'class', 'share'" in message(UsageError, quantity, upper="half")


@pytest.mark.parametrize("name", ["shards", "shards-imbalanced"])
def test_fewer_shards_than_classes_are_refused(name):
    partition = get_partition(name, classes_per_client=2)
    assert message(PartitionError, partition.split, LABELS, 10, 4, 0) == (
        f"partition '{name}': 4 clients with classes_per_client = 2 make 8 shards for 10 classes: "
        "use at least 5 clients or more classes per client"
    )
