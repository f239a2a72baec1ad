"""Flower's switches for every test here; tests on hosts of their own are left out where none can be made."""

from __future__ import annotations

import pytest

from deploy.loopback import identify, silence
from deploy.machines import allowed

if not allowed():
    collect_ignore = ["test_machines.py"]


def pytest_report_header() -> str | None:
    return None if allowed() else "no network namespaces here (Linux, root, iproute2): test_machines.py is left out"


@pytest.fixture(autouse=True)
def _quiet_flower(monkeypatch, tmp_path):
    silence(monkeypatch, tmp_path / "flwr")
    identify(monkeypatch)
