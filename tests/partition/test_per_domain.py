"""Domains with clients of their own."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedvls.errors import DataError, PartitionError, UsageError
from fedvls.partition import PARTITIONS, dirichlet, get_partition, per_domain

INNER = sorted({entry.name for entry in PARTITIONS} - {"given", "per-domain"})


@pytest.fixture
def four():
    """4 domains of 400, 300, 600 and 200 samples of ten classes, mixed; and their labels."""
    random = np.random.RandomState(2)
    domains = random.permutation(np.repeat(np.arange(4), [400, 300, 600, 200]))
    return random.randint(0, 10, len(domains)), domains


def test_six_clients_per_domain_hold_its_samples_and_no_others(four):
    labels, domains = four
    split = per_domain().split(labels, 10, 24, seed=0, domains=domains)
    assert np.sort(np.concatenate(split.indices)).tolist() == list(range(len(labels)))
    for client, own in enumerate(split.indices):
        assert set(domains[own]) == {client // 6}
        assert len(own) >= 10
    assert split.tries >= 4


def test_domains_are_shared_one_after_the_other_with_one_generator(four):
    labels, domains = four
    split = per_domain(beta=0.3).split(labels, 10, 24, seed=5, domains=domains)
    random, expected = np.random.RandomState(5), []
    for domain in range(4):
        own = np.flatnonzero(domains == domain)
        lists, _ = dirichlet(beta=0.3).assign(labels[own], 10, 6, random)
        expected += [own[one].tolist() for one in lists]
    assert [own.tolist() for own in split.indices] == expected


def test_a_single_domain_is_shared_as_by_the_inner_partition(four):
    labels, _ = four
    alone = dirichlet(beta=0.1).split(labels, 10, 8, seed=3)
    split = per_domain(beta=0.1, clients_per_domain=8).split(labels, 10, 8, 3, domains=np.zeros(len(labels), int))
    assert split.fingerprint == alone.fingerprint
    assert split.tries == alone.tries


@pytest.mark.parametrize("inner", INNER)
def test_every_partition_of_labels_can_be_the_inner_one(four, inner):
    labels, domains = four
    split = get_partition("per-domain", inner=inner, clients_per_domain="5").split(labels, 10, 20, 0, domains=domains)
    assert np.sort(np.concatenate(split.indices)).tolist() == list(range(len(labels)))
    assert all(set(domains[own]) == {client // 5} for client, own in enumerate(split.indices))


@given(
    sizes=st.lists(st.integers(12, 60), min_size=1, max_size=4),
    each=st.integers(1, 3),
    classes=st.integers(1, 4),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60, deadline=None)
def test_every_sample_stays_in_its_domain_and_goes_to_one_client(sizes, each, classes, seed):
    random = np.random.RandomState(seed)
    domains = random.permutation(np.repeat(np.arange(len(sizes)), sizes))
    labels = random.randint(0, classes, len(domains))
    partition = per_domain(clients_per_domain=each, min_size=1)
    split = partition.split(labels, classes, each * len(sizes), seed, domains=domains)
    assert np.sort(np.concatenate(split.indices)).tolist() == list(range(len(labels)))
    for client, own in enumerate(split.indices):
        assert set(domains[own]) == {client // each}
    again = partition.split(labels, classes, each * len(sizes), seed, domains=domains)
    assert again.fingerprint == split.fingerprint


def test_a_smaller_beta_leaves_more_classes_vacant(four):
    labels, domains = four
    vacant = [
        per_domain(beta=beta, min_size=1).split(labels, 10, 24, 0, domains=domains).vacant_per_client
        for beta in (0.05, 5.0)
    ]
    assert vacant[0] > vacant[1] + 2


def test_values_are_kept_and_rebuild_it():
    spec = per_domain(beta=0.05, clients_per_domain=3).spec
    assert spec == {
        "name": "per-domain",
        "inner": "dirichlet",
        "beta": 0.05,
        "clients_per_domain": 3,
        "min_size": 10,
        "max_tries": 1000,
        "classes_per_client": None,
    }
    assert get_partition(**spec).spec == spec


def told(kind, labels, clients, domains, **values):
    with pytest.raises(kind) as caught:
        per_domain(**values).split(labels, 10, clients, 0, domains=domains)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_number_of_clients_that_does_not_fit_is_told_with_those_that_do(four):
    assert told(PartitionError, four[0], 10, four[1]) == (
        "partition 'per-domain': 10 clients, but 4 domains with clients_per_domain = 6 make 24: use 24 clients"
    )
    assert told(PartitionError, four[0], 20, four[1]).endswith("use 24 clients, or clients_per_domain = 5")


def test_data_without_domains_are_told(four):
    assert "the data do not say which domain a sample is from" in told(PartitionError, four[0], 24, None)


@pytest.mark.parametrize("wrong", [np.zeros(3, int), np.zeros(1500), np.full(1500, -1)])
def test_domains_that_do_not_fit_the_labels_are_told(four, wrong):
    text = told(DataError, four[0], 6, wrong)
    assert text.endswith("they must be one whole number for each of 1500 samples")


def test_a_domain_without_enough_samples_is_told(four):
    labels, domains = four
    domains = np.where(domains == 1, 0, domains)
    assert "domain 1 has 0 samples for 6 of 24 clients" in told(PartitionError, labels, 24, domains)


def test_an_impossible_inner_partition_is_told_with_its_domain(four):
    assert told(PartitionError, four[0], 24, four[1], beta=100.0, min_size=34) == (
        "partition 'per-domain': domain 3 of 4, 24 clients in all: 6 clients with at least 34 samples each (min_size) "
        "need 204 samples, but there are 200: use at most 5 clients or lower min_size"
    )


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"inner": "dirichelt"}, "unknown partition 'dirichelt'; did you mean 'dirichlet'"),
        ({"inner": "iid", "beta": 0.1}, r"beta = 0\.1, but the inner partition 'iid' has no beta: leave it out"),
        ({"classes_per_client": 2}, "classes_per_client = 2, but the inner partition 'dirichlet' has no"),
        ({"inner": "given"}, "inner = 'given' cannot divide a domain"),
        ({"inner": "per-domain"}, "inner = 'per-domain' cannot divide a domain"),
        ({"clients_per_domain": 0}, "clients_per_domain = 0 must be a whole number of at least 1"),
        ({"beta": 0.0}, r"beta = 0\.0 must be above 0"),
    ],
)
def test_values_that_cannot_be_are_told_at_once(values, words):
    with pytest.raises(UsageError, match=words):
        per_domain(**values)
