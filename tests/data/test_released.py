"""Data divided and scored as the authors' program does: possible, for study, and said everywhere."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support import run_command

import fedvls
from fedvls.data import load_dataset
from fedvls.data.released import merge_and_split
from fedvls.errors import UsageError


def rows(*arrays: np.ndarray) -> list[bytes]:
    """Every sample of these arrays, to be compared as a multiset."""
    return sorted(sample.tobytes() for array in arrays for sample in array)


def test_merged_data_hold_every_sample_once_with_its_label_in_new_parts():
    plain, merged = load_dataset("digits"), load_dataset("digits", merged_split=0.75)
    assert (len(merged.y_train), len(merged.y_test)) == (1348, 449)  # 1,797 digits: 75 % are 1,347.75
    assert rows(merged.x_train, merged.x_test) == rows(plain.x_train, plain.x_test)
    label = {x.tobytes(): y for x, y in zip(plain.x_train, plain.y_train.tolist(), strict=True)}
    label |= {x.tobytes(): y for x, y in zip(plain.x_test, plain.y_test.tolist(), strict=True)}
    for x, y in ((merged.x_train, merged.y_train), (merged.x_test, merged.y_test)):
        assert [label[sample.tobytes()] for sample in x] == y.tolist()
    tested = set(rows(plain.x_test))
    assert 200 < sum(sample.tobytes() in tested for sample in merged.x_train) < 340  # three of four of its 364


def test_the_split_is_the_same_every_time():
    first, again, other = (load_dataset("digits", merged_split=share).fingerprint for share in (0.75, 0.75, 0.5))
    assert first == again != other


def test_domains_go_with_their_samples():
    x = np.arange(40.0)[:, None]
    data = fedvls.FederatedData.from_arrays(
        *(x[:30], np.arange(30) % 2, x[30:], np.arange(10) % 2),
        domains=("low", "high"),
        domain_train=np.arange(30) // 20,
        domain_test=[1] * 9 + [0],
    )
    merged = merge_and_split(data, 0.5)
    true = np.array([*np.arange(30) // 20, *[1] * 9, 0])
    assert merged.domain_train.tolist() == true[merged.x_train[:, 0].astype(int)].tolist()
    assert merged.domain_test.tolist() == true[merged.x_test[:, 0].astype(int)].tolist()


def test_data_that_are_divided_already_are_not_merged():
    x, y = np.zeros((8, 2)), np.arange(8) % 2
    data = fedvls.FederatedData.from_clients([x, x], [y, y], x, y)
    with pytest.raises(UsageError, match=r"data\.merged_split = 0\.5, but .* is divided among clients already"):
        merge_and_split(data, 0.5)


@pytest.mark.parametrize("share", [0, 1, -0.5, "most"])
def test_an_impossible_share_is_an_error(share):
    with pytest.raises(UsageError, match=r"data\.merged_split"):
        load_dataset("digits", merged_split=share)


def test_scoring_on_training_data_is_training_accuracy_and_the_header_says_so(caplog):
    plain, scored = load_dataset("digits"), load_dataset("digits", evaluate_on="train")
    assert np.array_equal(scored.x_test, plain.x_train)
    assert "TRAINING samples" in caplog.text
    partition = fedvls.dirichlet(beta=0.5)
    results = [
        fedvls.Federation(data, partition=partition, clients=4, device="cpu").run("fedavg", 2, 1, out=None)
        for data in (plain, scored)
    ]
    first, second = (result.weights.tensors() for result in results)
    assert all(first[key].equal(second[key]) for key in first)  # training is the same
    assert results[1].header["data"]["scores"].startswith("ON TRAINING DATA")
    assert "scores" not in results[0].header["data"]
    own = fedvls.FederatedData.from_arrays(
        plain.x_train, plain.y_train, plain.x_train, plain.y_train, mean=0.5, std=0.5
    )
    by_hand = fedvls.Federation(own, partition=partition, clients=4, device="cpu").run("fedavg", 2, 1, out=None)
    assert results[1].curve == by_hand.curve != results[0].curve


def test_where_scores_are_from_is_a_word_or_an_error():
    with pytest.raises(UsageError, match=r"data\.evaluate_on = 'valid' is not one of 'test', 'train'"):
        load_dataset("digits", evaluate_on="valid")


def test_a_run_remembers_both_and_its_row_says_so(tmp_path):
    chosen = ["--set", "data.merged_split=0.75", "--set", "data.evaluate_on=train"]
    quick = ["--method", "fedavg", "--rounds", "1", "--epochs", "1", "--device", "cpu", "--out", "run"]
    done = run_command("run", *quick, *chosen, cwd=tmp_path, check=True)
    assert "every accuracy is on TRAINING samples" in done.stderr
    (row,) = json.loads(run_command("show", "run", "--json", cwd=tmp_path, check=True).stdout)
    assert row["setting"].startswith("digits(merged_split=0.75, evaluate_on=train), ")
    run_command("resume", "run", cwd=tmp_path, check=True)
