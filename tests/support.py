"""Shared by tests: small data and models, hand-made partitions, and the command line as a user runs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

import fedvls

T = TypeVar("T")
ROOT = Path(__file__).parent.parent


class BatchNormNet(nn.Module):
    """The smallest network that has BatchNorm on maps and on vectors."""

    def __init__(self, classes: int = 5) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.hidden = nn.Linear(4 * 16, 12)
        self.norm2 = nn.BatchNorm1d(12)
        self.head = nn.Linear(12, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.conv(x))).flatten(1)
        return self.head(torch.relu(self.norm2(self.hidden(x))))


def small_data(classes: int = 5, per_class: int = 24, seed: int = 0) -> fedvls.FederatedData:
    """Well separated 4x4 images: class k has a bright stripe that depends on k."""
    random = np.random.RandomState(seed)

    def draw(n: int) -> tuple[np.ndarray, np.ndarray]:
        y = np.repeat(np.arange(classes), n)
        x = random.normal(0, 0.3, (len(y), 1, 4, 4)).astype(np.float32)
        x.reshape(len(y), -1)[np.arange(len(y)), y * 3] += 2
        return x, y

    return fedvls.FederatedData.from_arrays(*draw(per_class), *draw(8), name="stripes")


def batch_norm_net(classes: int = 5, seed: int = 0) -> nn.Module:
    """A BatchNormNet whose weights depend on the seed alone."""
    with torch.random.fork_rng():
        torch.default_generator.manual_seed(seed)
        return BatchNormNet(classes)


def hand_made(*assignment: list[int]) -> fedvls.Partition:
    """A partition that gives each client exactly these training positions."""
    return fedvls.Partition(
        lambda labels, classes, clients, random: ([np.asarray(a) for a in assignment], 1), name="hand-made"
    )


def command_environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "COLUMNS": "120"}


def _answer_ctrl_c() -> None:
    """A shell's background jobs ignore Ctrl-C, and so do their children unless told otherwise."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start_command(*arguments: object, cwd: Path, **keywords: Any) -> subprocess.Popen[str]:
    """`fedvls ...` in its own process, not waited for; Ctrl-C reaches it even where tests run in the background."""
    return subprocess.Popen(
        [sys.executable, "-m", "fedvls", *map(str, arguments)],
        cwd=cwd,
        env=command_environment(),
        text=True,
        preexec_fn=_answer_ctrl_c,
        **keywords,
    )


def run_command(*arguments: object, cwd: Path, check: bool = False) -> subprocess.CompletedProcess[str]:
    """`fedvls ...` in its own process."""
    done = subprocess.run(
        [sys.executable, "-m", "fedvls", *map(str, arguments)],
        cwd=cwd,
        env=command_environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert not check or done.returncode == 0, done.stderr
    return done


def descendants(pid: int) -> Iterator[int]:
    """Processes started by this one, and by those."""
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:  # it ended meanwhile
            continue
        for child in map(int, children):
            yield child
            yield from descendants(child)


def in_a_run(pid: int) -> int | None:
    """A descendant in the middle of a run: it holds the lock of a run's folder that has a round."""
    for worker in descendants(pid):
        for handle in Path(f"/proc/{worker}/fd").glob("*"):
            try:
                target = handle.readlink()
            except OSError:
                continue
            if target.name == ".lock" and (target.parent / "metrics.jsonl").exists():
                return worker
    return None


def wait_for(condition: Callable[[], T | None], process: subprocess.Popen[str], what: str) -> T:
    """What `condition` gives once it is true; the process must still run then."""
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        found = condition()
        assert process.poll() is None, f"it ended before {what}"
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited in vain for {what}")
