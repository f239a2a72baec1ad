"""Tiny files of every data set that a study uses."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_files import WRITERS

SIZES = {
    "mnist": {"train": 300},
    "cifar10": {"train": 300, "test": 20},
    "cifar100": {"train": 400, "test": 20},
    "tiny-imagenet": {"train": 400, "classes": 200},  # two owners share a class under quantity skew
    "ag-news": {"train": 200},
    "svhn": {"train": 130, "test": 10},
    "usps": {"train": 130, "test": 10},
    "syn-digits": {"train": 130, "test": 10},
}


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All data sets in one folder."""
    folder = tmp_path_factory.mktemp("data")
    for name, sizes in SIZES.items():
        (folder / name).mkdir()
        WRITERS[name](folder / name, **sizes)
    return folder


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> object:
    """Decoded once per session, outside the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDVLS_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield
