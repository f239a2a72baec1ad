"""A fraction of the training data keeps every class's share and the whole test set."""

from __future__ import annotations

import numpy as np
import pytest

import fedvls
from fedvls.data import load_dataset
from fedvls.data.fraction import take_fraction
from fedvls.errors import UsageError
from fedvls.federation import run_config


def test_every_class_keeps_its_share_and_the_test_set_is_whole():
    whole, part = load_dataset("digits"), load_dataset("digits", fraction=0.1)
    before, after = np.bincount(whole.y_train), np.bincount(part.y_train)
    np.testing.assert_array_equal(after, [round(n * 0.1) for n in before.tolist()])
    assert len(part.y_test) == len(whole.y_test)
    assert part.fingerprint != whole.fingerprint
    assert part.name == whole.name  # so that its augmentation is found


def test_samples_keep_their_labels():
    whole, part = load_dataset("digits"), load_dataset("digits", fraction=0.3)
    place = {sample.tobytes(): label for sample, label in zip(whole.x_train, whole.y_train.tolist(), strict=True)}
    assert [place[sample.tobytes()] for sample in part.x_train] == part.y_train.tolist()


def test_a_class_with_one_sample_keeps_it():
    data = fedvls.FederatedData.from_arrays(np.arange(11.0)[:, None], [0] * 10 + [1], np.zeros((2, 1)), [0, 1])
    assert np.bincount(take_fraction(data, 0.2).y_train).tolist() == [2, 1]


def test_domains_and_clients_keep_their_shares():
    x = np.arange(40.0)[:, None]
    y, domain = np.arange(40) % 2, np.repeat([0, 1], [32, 8])
    data = fedvls.FederatedData.from_arrays(
        *(x, y, x[:2], y[:2]), domains=("a", "b"), domain_train=domain, domain_test=[0, 1]
    )
    assert np.bincount(take_fraction(data, 0.25).domain_train).tolist() == [8, 2]
    divided = fedvls.FederatedData.from_clients([x[:8], x[8:]], [y[:8], y[8:]], x[:2], y[:2])
    part = take_fraction(divided, 0.5)
    assert [len(own) for own in part.clients] == [4, 16]
    assert part.x_train[part.clients[0]].max() < 8 <= part.x_train[part.clients[1]].min()


def test_a_config_remembers_the_fraction(tmp_path):
    config = fedvls.RunConfig.from_mapping({"data": {"name": "digits", "fraction": 0.2}, "rounds": 1, "device": "cpu"})
    result = run_config(config, tmp_path / "run")
    assert result.header["data"]["train_samples"] == len(load_dataset("digits", fraction=0.2).y_train)
    assert "fraction: 0.2" in (tmp_path / "run" / "config.yaml").read_text()


@pytest.mark.parametrize("fraction", [0, -0.1, 1.5, "half", float("nan")])
def test_an_impossible_fraction_is_an_error(fraction):
    with pytest.raises(UsageError, match=r"data\.fraction"):
        load_dataset("digits", fraction=fraction)
