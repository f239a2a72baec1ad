"""Published and released tables, drawn with seed 1 from the legacy generator (worked values in tests/golden)."""

import numpy as np
import pytest

from fedvls.partition import dirichlet, dirichlet_plain, quantity, shards


def labels_of(case):
    sizes = case["inputs"]["class_sizes"]
    return np.repeat(np.arange(len(sizes)), sizes)


def test_dirichlet_reproduces_the_published_client_table(cifar10):
    # The data distribution table of the FedVLS paper, whose caption says beta = 0.1; all cells are those of 0.05.
    split = dirichlet(beta=0.05).split(cifar10, classes=10, clients=10, seed=1)
    assert split.counts[0].tolist() == [0, 0, 0, 141, 0, 1471, 0, 0, 1360, 366]
    assert split.counts[8].tolist() == [0, 11, 0, 208, 1, 0, 1, 4998, 0, 0]


@pytest.mark.parametrize("beta", [0.05, 0.1, 0.5])
def test_dirichlet_reproduces_every_cell_and_the_order_of_samples(golden, beta):
    case = golden(f"dirichlet_cifar10_sizes_seed1_alpha{beta}")
    given, expected = case["inputs"], case["expected"]
    partition = dirichlet(beta=given["alpha"], min_size=given["min_size"])
    split = partition.split(labels_of(case), classes=10, clients=given["n_clients"], seed=given["seed"])
    np.testing.assert_array_equal(split.counts, expected["counts_client_by_class"])
    assert split.indices[0][:5].tolist() == expected["first5_indices_client0"]
    assert split.tries == expected["draws"]


def test_dirichlet_counts_do_not_depend_on_the_order_of_the_labels(golden, cifar10):
    expected = golden("dirichlet_cifar10_sizes_seed1_alpha0.05")["expected"]["counts_client_by_class"]
    mixed = np.random.RandomState(7).permutation(cifar10)
    np.testing.assert_array_equal(dirichlet(beta=0.05).split(mixed, 10, 10, seed=1).counts, expected)


def test_dirichlet_reproduces_the_toy_table(golden):
    case = golden("dirichlet_small")
    split = dirichlet(beta=0.5, min_size=10).split(np.repeat(np.arange(4), 30), classes=4, clients=3, seed=0)
    np.testing.assert_array_equal(split.counts, case["expected"]["counts_client_by_class"])
    assert split.tries == case["expected"]["draws"]


def plain_loop(labels, classes, clients, beta, min_size, cap, seed):
    """The class-wise split written out with lists and one sample at a time, redrawn until all clients are served."""
    random, tries, held = np.random.RandomState(seed), 0, [[]]
    while tries == 0 or min(map(len, held)) < min_size:
        held = [[] for _ in range(clients)]
        tries += 1
        for label in range(classes):
            own = [place for place, value in enumerate(labels) if value == label]
            random.shuffle(own)
            share = random.dirichlet([beta] * clients)
            if cap:
                share = np.array(
                    [s if len(h) < len(labels) / clients else 0.0 for s, h in zip(share, held, strict=True)]
                )
            ends = (np.cumsum(share / share.sum()) * len(own)).astype(int)
            for place, sample in enumerate(own):
                held[np.searchsorted(ends[:-1], place, side="right")].append(sample)
    for own in held:
        random.shuffle(own)
    return held, tries


@pytest.mark.parametrize(("build", "cap"), [(dirichlet, True), (dirichlet_plain, False)])
@pytest.mark.parametrize("seed", range(3))
def test_dirichlet_equals_the_plain_loop_also_after_rejected_draws(mixed, build, cap, seed):
    held, tries = plain_loop(mixed.tolist(), 10, 8, beta=0.3, min_size=70, cap=cap, seed=seed)
    split = build(beta=0.3, min_size=70).split(mixed, 10, 8, seed)
    assert [own.tolist() for own in split.indices] == held
    assert split.tries == tries > 1


def test_quantity_reproduces_the_released_cifar10_table(golden):
    case = golden("quantity_released_cifar10_seed1")
    split = quantity().split(labels_of(case), classes=10, clients=10, seed=1)
    np.testing.assert_array_equal(split.counts, case["expected"]["counts_client_by_class"])


def test_quantity_reproduces_the_released_cifar100_table(golden):
    case = golden("quantity_released_cifar100_seed1")
    split = quantity().split(labels_of(case), classes=100, clients=10, seed=1)
    for block, first in enumerate(case["expected"]["first_client_of_each_block_counts"]):
        owned = slice(20 * block, 20 * block + 20)
        assert split.counts[2 * block, owned].tolist() == first
        assert split.counts[2 * block + 1, owned].tolist() == [500 - count for count in first]
        assert split.counts[2 * block : 2 * block + 2].sum() == 20 * 500


def test_quantity_never_gives_an_owner_less_than_one_sample_where_the_released_code_goes_negative(golden):
    case = golden("quantity_released_can_go_negative")
    assert case["expected"]["min_count"] < 0
    given = case["inputs"]
    split = quantity(classes_per_client=given["s"]).split(labels_of(case), 10, given["n_clients"], given["seed"])
    # Four owners a class: eight clients have all their four classes, then two are left for the last two classes.
    assert (split.counts > 0).sum(axis=0).tolist() == [4] * 8 + [2] * 2
    assert split.counts.sum(axis=0).tolist() == given["class_sizes"]


def test_shards_have_the_properties_of_the_published_sharding(golden):
    case = golden("shards_fedntd_properties")
    given, expected = case["inputs"], case["expected"]
    split = shards(classes_per_client=given["s"]).split(labels_of(case), 10, given["n_clients"], seed=5)
    assert split.sizes.tolist() == [expected["every_client_total"]] * 10
    assert (split.counts > 0).sum(axis=1).max() <= expected["max_distinct_classes"]
    assert np.sort(np.concatenate(split.indices)).tolist() == list(range(50_000))
