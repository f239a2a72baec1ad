"""What holds for every registered partition, whatever the labels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedvls.errors import FedvlsError
from fedvls.partition import PARTITIONS, get_partition

NAMES = [entry.name for entry in PARTITIONS]
KEEP_SMALL_CLIENTS = {name: {"min_size": 1} for name in ("dirichlet", "dirichlet-plain", "per-domain")}
NOTHING_DRAWN = {"given"}


def build(name, per_client=None, clients=10, **values):
    """The partition with values under which small data (of one domain) can be shared."""
    if "classes_per_client" in PARTITIONS.entry(name).defaults and name != "per-domain":
        values["classes_per_client"] = per_client
    if name == "per-domain":
        values["clients_per_domain"] = clients
    return get_partition(name, **KEEP_SMALL_CLIENTS.get(name, {}), **values)


def assert_valid(split, labels, classes, clients):
    """Every sample is at exactly one client, every client has one, and the counts are those of the labels."""
    assert split.counts.shape == (clients, classes)
    assert np.sort(np.concatenate(split.indices)).tolist() == list(range(len(labels)))
    assert split.sizes.min() >= 1
    for own, counts in zip(split.indices, split.counts, strict=True):
        assert own.dtype == np.int64
        assert [(labels[own] == label).sum() for label in range(classes)] == counts.tolist()


@st.composite
def comfortable(draw):
    """Labels, classes, clients and classes per client for which every partition exists."""
    classes = draw(st.integers(1, 6))
    sizes = draw(st.lists(st.integers(20, 50), min_size=classes, max_size=classes))
    order = np.random.RandomState(draw(st.integers(0, 2**32 - 1)))
    labels = order.permutation(np.repeat(np.arange(classes), sizes))
    return labels, classes, classes * draw(st.integers(1, 2)), draw(st.integers(1, classes))


@pytest.mark.parametrize("name", NAMES)
@given(problem=comfortable(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_every_sample_goes_to_exactly_one_client_and_a_seed_fixes_which(name, problem, seed, known):
    labels, classes, clients, per_client = problem
    kept, state = labels.copy(), np.random.get_state()
    partition = build(name, per_client, clients)
    told = known(labels, clients)
    first = partition.split(labels, classes, clients, seed, **told)
    assert_valid(first, labels, classes, clients)
    again = build(name, per_client, clients).split(labels, classes, clients, seed, **told)
    assert again.fingerprint == first.fingerprint
    np.testing.assert_array_equal(labels, kept)
    for before, after in zip(state, np.random.get_state(), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("name", NAMES)
@given(
    labels=st.lists(st.integers(0, 5), min_size=1, max_size=40),
    classes=st.integers(6, 8),
    clients=st.integers(1, 45),
    per_client=st.none() | st.integers(1, 8),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=100, deadline=None)
def test_any_labels_give_a_valid_split_or_one_line_that_says_why_not(
    name, labels, classes, clients, per_client, seed, known
):
    extra = {"max_tries": 20} if "max_tries" in PARTITIONS.entry(name).defaults else {}
    split, problem = None, ""
    try:
        told = known(labels, clients)
        split = build(name, per_client, clients, **extra).split(np.array(labels), classes, clients, seed, **told)
    except FedvlsError as error:
        problem = str(error)
    if split:
        assert_valid(split, np.array(labels), classes, clients)
    else:
        assert "\n" not in problem
        assert f"{clients} clients" in problem or f"of {clients}" in problem or f"= {per_client}" in problem


@pytest.mark.parametrize("name", sorted(set(NAMES) - NOTHING_DRAWN))
def test_another_seed_gives_another_split(name, mixed, known):
    prints = {build(name).split(mixed, 10, 10, seed, **known(mixed, 10)).fingerprint for seed in range(5)}
    assert len(prints) == 5


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("clients", [1, 4])
def test_data_of_a_single_class_can_be_shared(name, clients, known):
    labels = np.zeros(200, dtype=np.uint8)
    split = build(name, clients=clients).split(labels, 1, clients, seed=0, **known(labels, clients))
    assert_valid(split, labels, 1, clients)
    assert split.vacant_per_client == 0.0


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"quantity"}))
@pytest.mark.parametrize("clients", [1, 5])
def test_classes_without_any_sample_are_vacant_everywhere(name, clients, known):
    labels = np.full(200, 2)
    split = build(name, clients=clients).split(labels, 10, clients, seed=0, **known(labels, clients))
    assert_valid(split, labels, 10, clients)
    assert split.vacant_per_client == 9.0


@pytest.mark.parametrize("name", ["quantity", "shards", "shards-imbalanced"])
def test_more_classes_than_fit_into_a_byte_are_told_apart(name):
    labels = np.random.RandomState(1).permutation(np.repeat(np.arange(300), 4))
    split = build(name, per_client=60).split(labels, classes=300, clients=10, seed=0)
    assert_valid(split, labels, 300, 10)
    assert (split.counts > 0).sum(axis=1).max() <= 60


@pytest.mark.parametrize("name", NAMES)
def test_first_line_of_the_documentation_is_one_short_sentence(name):
    summary = PARTITIONS.entry(name).summary
    assert summary.endswith(".")
    assert 20 < len(summary) <= 115
