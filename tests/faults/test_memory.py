"""A long run: memory, open files and processes stay as they are after the first rounds."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest
from support import WITH_HELPERS, run_python

HERE = Path(__file__).parent
ROUNDS, WARM_UP, SPAN = 60, 15, 10
BOUND = 3.0  # MiB in the 35 rounds between the early and the late ones: less than half a model of 0.18 MiB each


def watched(method: str, engine: str, leak: str = "") -> list[dict[str, float]]:
    """What the run of `long_run.py` held after each of its rounds."""
    # Two workers, on a single core too.
    done = run_python(HERE / "long_run.py", method, engine, leak, FEDVLS_CORES="2", PYTHONPATH=WITH_HELPERS)
    assert done.returncode == 0, done.stderr
    rounds: list[dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    assert len(rounds) == ROUNDS
    return rounds


def assert_flat(rounds: list[dict[str, float]]) -> None:
    """The median of late rounds is that of early ones, within the bound; single rounds may differ."""
    early, late = rounds[WARM_UP : WARM_UP + SPAN], rounds[-SPAN:]
    assert early[0].keys() == late[-1].keys(), "processes came or went"
    for what in early[0]:
        first, last = (statistics.median(found[what] for found in span) for span in (early, late))
        allowed = BOUND if what.startswith(("parent", "worker")) else 0
        assert last - first <= allowed, f"{what} grew from {first:.1f} to {last:.1f}"


@pytest.mark.parametrize("engine", ["sequential", "parallel"])
@pytest.mark.parametrize("method", ["fedvls", "scaffold", "moon"])
def test_memory_files_and_processes_are_flat_over_sixty_rounds(method, engine):
    assert_flat(watched(method, engine))


@pytest.mark.parametrize(("leak", "grows"), [("memory", "parent"), ("files", "files")])
def test_a_leak_of_one_model_or_file_per_round_would_be_seen(leak, grows):
    with pytest.raises(AssertionError, match=f"{grows} grew"):
        assert_flat(watched("fedavg", "sequential", leak))


def test_a_leak_in_a_worker_would_be_seen():
    with pytest.raises(AssertionError, match="worker 0 grew"):
        assert_flat(watched("fedavg", "parallel", "loss"))
