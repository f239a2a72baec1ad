"""Flower's switches for every test here."""

from __future__ import annotations

import pytest

from deploy.loopback import identify, silence


@pytest.fixture(autouse=True)
def _quiet_flower(monkeypatch, tmp_path):
    silence(monkeypatch, tmp_path / "flwr")
    identify(monkeypatch)
