"""Fixtures for all tests."""

from __future__ import annotations

from typing import Any

import pytest
from support import small_data

import fedvls

# Files whose tests share started processes: one worker runs a whole file.
TOGETHER = ("deploy/test_processes.py", "deploy/test_simulation_runtime.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests go to the next free worker one by one, but for the files that stay together."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::", 1)[0]
            return file if file.endswith(TOGETHER) else nodeid

    return Scheduling(config, log)


@pytest.fixture(scope="session")
def stripes() -> fedvls.FederatedData:
    """Five separable classes of 4x4 images, 24 training samples each, in class order."""
    return small_data()
