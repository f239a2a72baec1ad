"""The Triton kernels, run on the CPU by Triton's interpreter, against plain PyTorch on random shapes."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import WITH_HELPERS, run_python

GROUPS = (
    ("pointwise", "depthwise", "around", "rounded"),
    ("pointwise_backward",),
    ("network", "step", "same_bits", "separate_tensors", "folded", "batch_norm"),
    ("terms", "shapes"),
    ("extremes", "padding", "not_numbers", "coverage", "gathering", "chains", "training"),
    ("operations",),
)


@pytest.mark.parametrize("checks", GROUPS, ids=lambda checks: checks[0])
def test_kernels_agree_with_the_reference(checks: tuple[str, ...]) -> None:
    """Float32, relative error below 2e-5, and for objectives float64, below 1e-10; the network and objectives against
    autograd in float64; the same bits when run twice."""
    script = Path(__file__).parent / "interpreted.py"
    done = run_python(script, *checks, TRITON_INTERPRET="1", PYTHONPATH=WITH_HELPERS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == [f"{check} agrees" for check in checks]
