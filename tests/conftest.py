"""Fixtures for all tests."""

from __future__ import annotations

import pytest
from support import small_data

import fedvls


@pytest.fixture(scope="session")
def stripes() -> fedvls.FederatedData:
    """Five separable classes of 4x4 images, 24 training samples each, in class order."""
    return small_data()
