"""These tests need a CUDA device; without one they are left out, and the report says so."""

from __future__ import annotations

import torch

if not torch.cuda.is_available():
    collect_ignore_glob = ["test_*.py"]


def pytest_report_header() -> str | None:
    return None if torch.cuda.is_available() else "no CUDA device here: tests/gpu is left out"
