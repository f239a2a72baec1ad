"""The particular shape of each partition."""

import numpy as np
import pytest

from fedvls.partition import (
    dirichlet,
    dirichlet_client,
    dirichlet_plain,
    iid,
    quantity,
    shards,
    shards_imbalanced,
)


def mean_vacancy(partition, labels, seeds=10):
    return np.mean([partition.split(labels, 10, 10, seed).vacant_per_client for seed in range(seeds)])


@pytest.mark.parametrize("build", [dirichlet, dirichlet_plain, dirichlet_client])
def test_a_smaller_beta_leaves_more_classes_vacant(build, cifar10):
    # near one client per class at 0.05 and near the whole data set at 50
    assert mean_vacancy(build(beta=0.05), cifar10) > 4 > 1.7 > mean_vacancy(build(beta=0.5), cifar10)
    assert mean_vacancy(build(beta=50), cifar10, seeds=2) < 0.5


def test_the_balance_cap_keeps_sizes_together_and_adds_vacant_classes(cifar10):
    capped, plain = (
        [build(beta=0.5).split(cifar10, 10, 10, seed) for seed in range(10)] for build in (dirichlet, dirichlet_plain)
    )
    assert np.mean([split.sizes.max() for split in capped]) < np.mean([split.sizes.max() for split in plain])
    assert np.mean([s.vacant_per_client for s in capped]) > 4 * np.mean([s.vacant_per_client for s in plain])


def test_no_client_at_the_cap_receives_another_class(cifar10):
    split = dirichlet(beta=0.1).split(cifar10, 10, 10, seed=3)
    held_before = np.cumsum(split.counts, axis=1) - split.counts
    assert (split.counts[held_before >= 5000] == 0).all()


def test_a_client_exactly_at_the_cap_is_full():
    # With a tiny beta a class goes to one client as a whole, and 10 of 100 samples are exactly the cap of 10 clients.
    split = dirichlet(beta=0.001, max_tries=20).split(np.repeat(np.arange(10), 10), 10, 10, seed=0)
    assert sorted(split.counts.tolist(), reverse=True) == (10 * np.eye(10, dtype=int)).tolist()


def test_dirichlet_draws_again_until_every_client_has_the_minimum(cifar10):
    split = dirichlet(beta=0.05, min_size=2500).split(cifar10, 10, 10, seed=1)
    assert split.tries > 1
    assert split.sizes.min() >= 2500


@pytest.mark.parametrize("beta", [1e-5, 1e-3, 0.5, 100])
def test_dirichlet_client_gives_every_client_the_same_number_of_samples(beta):
    labels = np.repeat(np.arange(7), [1, 30, 200, 5, 90, 40, 61])
    split = dirichlet_client(beta=beta).split(labels, 7, 10, seed=0)
    assert split.sizes.tolist() == [43] * 7 + [42] * 3


def test_dirichlet_client_is_not_harder_on_the_last_clients(cifar10):
    vacant = np.mean([dirichlet_client().split(cifar10, 10, 10, seed).vacant.sum(axis=1) for seed in range(60)], axis=0)
    assert abs(vacant[:5].mean() - vacant[5:].mean()) < 0.15  # client by client, the last five have about 2 more


def test_quantity_owners_form_blocks_and_samples_keep_their_order(mixed):
    split = quantity().split(mixed, 10, 10, seed=4)
    for client in range(10):
        block = client // 2
        assert np.flatnonzero(split.counts[client]).tolist() == [2 * block, 2 * block + 1]
        own = split.indices[client]
        for label in (2 * block, 2 * block + 1):
            assert (np.diff(own[mixed[own] == label]) > 0).all()


def test_quantity_share_keeps_draws_below_an_equal_share(cifar10):
    split = quantity(classes_per_client=5, upper="share").split(cifar10, 10, 10, seed=0)
    for owned in (split.counts[:5, :5], split.counts[5:, 5:]):  # five owners a class, an equal share is 1000
        assert owned.min() >= 100
        assert owned[:-1].max() < 1000
        assert owned[-1].min() > 1000  # the last owner has the rest


@pytest.mark.parametrize(("classes", "same_as"), [(10, "class"), (11, "share")])
def test_quantity_auto_mirrors_the_two_released_branches(classes, same_as):
    labels = np.repeat(np.arange(classes), 300)
    auto, named = (quantity(1, upper).split(labels, classes, 2 * classes, seed=0) for upper in ("auto", same_as))
    assert auto.fingerprint == named.fingerprint


def test_quantity_works_where_the_last_block_is_incomplete():
    split = quantity(classes_per_client=3).split(np.repeat(np.arange(4), 50), 4, 4, seed=0)
    assert split.vacant.tolist() == [[False, False, False, True]] * 3 + [[True, True, True, False]]


@pytest.mark.parametrize("build", [shards, shards_imbalanced])
def test_shards_leave_each_client_at_most_its_number_of_classes(build, mixed):
    split = build(classes_per_client=3).split(mixed, 10, 7, seed=2)  # 21 shards: one class has three
    assert (split.counts > 0).sum(axis=1).max() <= 3
    assert (split.counts.sum(axis=0) == 100).all()


def test_extra_shards_go_to_random_classes(mixed):
    # 10 clients with one shard each of 7 classes: three classes have two owners, not always the same three
    labels = mixed[mixed < 7]
    split_classes = set()
    for seed in range(10):
        owners = (shards(1).split(labels, 10, 10, seed).counts > 0).sum(axis=0)
        assert sorted(owners[:7].tolist()) == [1, 1, 1, 1, 2, 2, 2]
        split_classes.add(tuple(np.flatnonzero(owners == 2)))
    assert len(split_classes) > 1


def test_imbalanced_shards_differ_in_size_but_not_below_the_minimum(cifar10):
    split = shards_imbalanced(classes_per_client=1).split(cifar10, 10, 40, seed=0)
    assert split.sizes.min() >= 125  # 5000 / (10 * 4)
    assert split.sizes.std() > 300


def test_imbalanced_shards_of_a_small_class_are_cut_as_far_as_it_goes():
    split = shards_imbalanced(classes_per_client=1).split(np.zeros(23, dtype=int), 1, 5, seed=0)
    assert split.sizes.min() >= 4  # 23 samples for 5 owners cannot give 10 to each


def test_shards_are_shuffled_within_the_class(cifar10):
    own = shards(1).split(cifar10, 10, 20, seed=0).indices[0]
    assert (np.diff(own) < 0).any()


def test_iid_gives_one_sample_each_where_clients_equal_samples():
    split = iid().split(np.arange(12) % 3, classes=3, clients=12, seed=0)
    assert split.sizes.tolist() == [1] * 12


def test_iid_sizes_differ_by_at_most_one():
    assert iid().split(np.zeros(11, dtype=int), 1, 3, seed=0).sizes.tolist() == [4, 4, 3]
