"""Split and Partition: counting, vacancy, fingerprint, names."""

import ast
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import fedvls.partition
from fedvls.errors import UsageError
from fedvls.partition import PARTITIONS, Partition, Split, dirichlet, get_partition, iid

LABELS = np.array([0, 0, 1, 2, 2, 2])


def split_of(*lists, classes=4):
    return Split.of([np.array(own) for own in lists], LABELS, classes)


def test_counts_sizes_and_vacancy_follow_from_the_labels():
    split = split_of([0, 2, 3], [1, 4, 5])
    assert split.counts.tolist() == [[1, 1, 1, 0], [1, 0, 2, 0]]
    assert (split.clients, split.classes, split.sizes.tolist()) == (2, 4, [3, 3])
    assert split.vacant.tolist() == [[False, False, False, True], [False, True, False, True]]
    assert split.vacant_per_client == 1.5


def test_summary_survives_json_unchanged():
    summary = split_of([0, 2, 3], [1, 4, 5]).summary()
    assert json.loads(json.dumps(summary)) == summary
    assert summary["vacant"] == [[3], [1, 3]]
    assert summary["sizes"] == [3, 3]
    assert summary["tries"] == 1


@pytest.mark.parametrize(
    "other",
    [
        ([0, 2, 4], [1, 3, 5]),  # two samples of one class change places: the counts stay
        ([2, 0, 3], [1, 4, 5]),  # the order within a client
        ([0, 2], [3, 1, 4, 5]),  # the border between two clients
        ([1, 4, 5], [0, 2, 3]),  # the clients change places
        ([0, 2, 3], [1, 4, 5], []),
    ],
)
def test_fingerprint_changes_when_any_sample_moves(other):
    assert split_of([0, 2, 3], [1, 4, 5]).fingerprint != split_of(*other).fingerprint


def test_fingerprint_is_the_same_on_every_machine():
    # sha256 over 2, then 3 and 0 2 3, then 3 and 1 4 5, all as 8-byte little-endian integers
    expected = "ca9acc82e24f5826"
    assert split_of([0, 2, 3], [1, 4, 5]).fingerprint == expected
    big_endian = Split.of([np.array([0, 2, 3], dtype=">i4"), np.array([1, 4, 5], dtype=">i8")], LABELS, 4)
    assert big_endian.fingerprint == expected


def test_partition_knows_its_name_and_all_values_and_is_rebuilt_from_them():
    partition = dirichlet(beta=0.05)
    assert partition.spec == {"name": "dirichlet", "beta": 0.05, "min_size": 10, "max_tries": 1000}
    assert get_partition(**partition.spec).spec == partition.spec


def test_values_may_come_as_text():
    assert get_partition("dirichlet", beta="5e-2").spec == dirichlet(beta=0.05).spec


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(UsageError, match="did you mean 'dirichlet'"):
        get_partition("dirichelt")
    with pytest.raises(UsageError, match="did you mean 'beta'"):
        get_partition("dirichlet", betta=1)


def test_all_named_variants_are_registered():
    assert {entry.name for entry in PARTITIONS} >= {
        "dirichlet",
        "dirichlet-plain",
        "dirichlet-client",
        "quantity",
        "shards",
        "shards-imbalanced",
        "iid",
        "given",
        "per-domain",
    }


@pytest.mark.parametrize("name", [entry.name for entry in PARTITIONS])
def test_partitions_can_be_sent_to_another_process(name, mixed, known):
    partition = get_partition(name, **({"clients_per_domain": 10} if name == "per-domain" else {}))
    copy = pickle.loads(pickle.dumps(partition))
    one, other = (sent.split(mixed, 10, 10, 3, **known(mixed, 10)) for sent in (partition, copy))
    assert one.fingerprint == other.fingerprint


def test_a_partition_of_ones_own_needs_one_function():
    def alternate(labels, classes, clients, random):
        return [np.arange(client, len(labels), clients) for client in range(clients)], 1

    split = Partition(alternate, name="alternate").split(LABELS, 3, 2, seed=0)
    assert [own.tolist() for own in split.indices] == [[0, 2, 4], [1, 3, 5]]


def test_the_largest_seed_and_unsigned_labels_are_accepted():
    split = iid().split(LABELS.astype(np.uint64), classes=np.int64(3), clients=np.int32(2), seed=2**32 - 1)
    assert split.counts.sum(axis=0).tolist() == [2, 1, 3]


def test_the_package_imports_numpy_and_nothing_heavier():
    for file in Path(fedvls.partition.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not {"torch", "rng", "sklearn", "scipy"} & {name.split(".")[0] for name in names}, file
