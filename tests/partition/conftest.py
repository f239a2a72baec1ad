"""Worked values and label rows shared by the partition tests."""

import json
from pathlib import Path

import numpy as np
import pytest

GOLDEN = Path(__file__).parents[1] / "golden" / "cases.json"


@pytest.fixture(scope="session")
def golden():
    """`golden(name)`: the inputs and expected values of one worked partition."""
    cases = json.loads(GOLDEN.read_text())["cases"]
    found = {case["name"]: case for case in cases if case["method"] == "partition"}
    return found.__getitem__


@pytest.fixture(scope="session")
def cifar10():
    """Labels with the class sizes of CIFAR-10, in class order as in the worked values."""
    return np.repeat(np.arange(10), 5000)


@pytest.fixture(scope="session")
def known():
    """`known(labels, clients)`: what data that are divided already, and of one domain, tell a partition."""

    def make(labels, clients):
        order = np.random.RandomState(len(labels)).permutation(len(labels))
        return {"given": np.array_split(order, clients), "domains": np.zeros(len(labels), dtype=np.int64)}

    return make


@pytest.fixture
def mixed():
    """1000 labels of 10 classes in random order, 100 of each."""
    return np.random.RandomState(0).permutation(np.repeat(np.arange(10), 100))
