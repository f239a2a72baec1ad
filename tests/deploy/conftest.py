"""Flower's switches for every test here: no telemetry, no update check, a home of its own."""

from __future__ import annotations

import pytest

from deploy.loopback import identify


@pytest.fixture(autouse=True)
def _quiet_flower(monkeypatch, tmp_path):
    monkeypatch.setenv("FLWR_TELEMETRY_ENABLED", "0")
    monkeypatch.setenv("FLWR_DISABLE_UPDATE_CHECK", "1")
    monkeypatch.setenv("FLWR_HOME", str(tmp_path / "flwr"))
    identify(monkeypatch)
