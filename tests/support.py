"""Shared by tests: small data and models, hand-made partitions, and the command line as a user runs it."""

from __future__ import annotations

import ctypes
import math
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
from fedvls.groups import GROUPS, group_accuracy, summarise_groups
from fedvls.models.mlp import Mlp
from fedvls.runs.config import RunConfig
from fedvls.runs.files import to_json
from fedvls.runs.scores import scores
from fedvls.runs.store import RunDirectory

T = TypeVar("T")
ROOT = Path(__file__).parent.parent
WITHOUT_ONEDNN = "PyTorch is built without oneDNN here, so no product is ever handed to it"


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


class DropoutNet(nn.Module):
    """A small network that drops single numbers and whole channels, with one layer in two places."""

    def __init__(self, classes: int = 5) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 3, padding=1)
        self.drop_channels = nn.Dropout2d(0.3)
        self.drop = nn.Dropout(0.4)
        self.hidden = nn.Linear(6 * 16, 12)
        self.head = nn.Linear(12, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.drop(self.drop_channels(torch.relu(self.conv(x)))).flatten(1)
        return self.head(self.drop(torch.relu(self.hidden(x))))


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


def dropout_net(classes: int = 5, seed: int = 0) -> nn.Module:
    """A DropoutNet whose weights depend on the seed alone."""
    with torch.random.fork_rng():
        torch.default_generator.manual_seed(seed)
        return DropoutNet(classes)


def small_mlp() -> Mlp:
    """16 inputs, two hidden layers of 20, 5 classes; its weights are spread evenly."""
    model = Mlp(16, (20, 20), 5)
    with torch.no_grad():
        for k, p in enumerate(model.parameters()):
            p.copy_(torch.linspace(-0.3, 0.3, p.numel()).roll(7 * k).reshape(p.shape))
    return model


def assert_close(mine: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor], tolerance: float) -> None:
    """Relative, in the norm over all floating tensors together; whole numbers must be equal."""
    floating = [key for key, tensor in theirs.items() if tensor.is_floating_point()]
    assert mine.keys() == theirs.keys()
    apart = torch.cat([(mine[key] - theirs[key]).flatten() for key in floating]).norm()
    size = torch.cat([theirs[key].flatten() for key in floating]).norm()
    assert apart <= tolerance * size, f"{float(apart / size):.1e} apart, {tolerance:.0e} allowed"
    assert all(torch.equal(mine[key], theirs[key]) for key in theirs.keys() - set(floating))


def hand_made(*assignment: list[int]) -> fedvls.Partition:
    """A partition that gives each client exactly these training positions."""
    return fedvls.Partition(
        lambda labels, classes, clients, random: ([np.asarray(a) for a in assignment], 1), name="hand-made"
    )


WITH_HELPERS = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
"""PYTHONPATH of a script that imports what tests share."""


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


def run_python(*arguments: object, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    """`python ...` in its own process; more: variables of its environment."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=command_environment() | more,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def run_command(*arguments: object, cwd: Path, check: bool = False) -> subprocess.CompletedProcess[str]:
    """`fedvls ...` in its own process."""
    done = run_python("-m", "fedvls", *arguments, cwd=cwd)
    assert not check or done.returncode == 0, done.stderr
    return done


def children(pid: int) -> set[int]:
    """Processes whose parent is `pid`, dead ones that nobody has waited for included."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.add(int(stat.parent.name))
    return found


def memory(pid: int) -> float:
    """MiB of a process's own memory: not of files and libraries, which come in as they are touched.

    In this process what is free goes back to the system first, or the gaps that earlier tests left would hide growth.
    """
    if pid == os.getpid():
        ctypes.CDLL(None).malloc_trim(0)
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith("RssAnon")) / 1024


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def write_run(
    folder: Path,
    method: str = "fedavg",
    seed: int = 0,
    rounds: int = 4,
    class_names: tuple[str, ...] = ("cat", "dog", "owl"),
    complete: bool = True,
    **choices: Any,
) -> RunDirectory:
    """A run folder with made-up but lawful numbers, for what reads runs: no training, no waiting.

    Client k lacks class k; accuracy of round r is 1 - exp(-r / (3 + seed)), or as far as the method's name is long.
    """
    classes, clients = len(class_names), 3
    config = RunConfig.from_mapping(
        {"method": {"name": method}, "seed": seed, "clients": clients, "rounds": rounds, **choices}
    )
    run = RunDirectory.prepare(folder, config)
    counts = np.array(
        [[0 if label == client else 5 + 9 * label for label in range(classes)] for client in range(clients)]
    )
    vacant = [np.flatnonzero(row == 0).tolist() for row in counts]
    run.write_header(
        {
            "data": {"name": "made-up", "classes": classes, "class_names": list(class_names), "fingerprint": "d" * 16},
            "partition": {
                "name": "dirichlet",
                "seed": seed,
                "classes": classes,
                "sizes": counts.sum(1).tolist(),
                "vacant": vacant,
                "vacant_per_client": float(np.mean([len(row) for row in vacant])),
                "counts": counts.tolist(),
                "fingerprint": f"{seed:016d}",
            },
            "method": {"name": method},
            "seed": seed,
            "started": f"2020-01-01T00:00:{seed % 60:02d}+00:00",
        }
    )
    made = [_round_of(number, method, seed, counts) for number in range(1, rounds + 1 if complete else rounds)]
    for name, lines in zip(("metrics.jsonl", "timing.jsonl"), zip(*made, strict=True), strict=True):
        (folder / name).write_text("".join(to_json(line) + "\n" for line in lines), encoding="utf-8")
    if complete:
        curve = [record["accuracy"] for record in run.records()]
        run.finish({**scores(curve), "rounds": rounds})
    return run


def _round_of(number: int, method: str, seed: int, counts: np.ndarray) -> tuple[dict[str, Any], dict[str, Any]]:
    """Record and timing of one made-up round; local training costs vacant classes half their accuracy."""
    clients, classes = counts.shape
    accuracy = 1 - math.exp(-number / (3 + seed + len(method) % 5))
    before = [accuracy] * classes
    told = []
    for client, row in enumerate(counts):
        after = [accuracy / 2 if count == 0 else accuracy for count in row]
        told.append(
            {
                "client": client,
                "accuracy": float(np.mean(after)),
                "per_class": after,
                **{moment: group_accuracy(each, row) for moment, each in (("before", before), ("after", after))},
            }
        )
    matrix = np.full((classes, classes), 2) + np.diag([10] * classes)
    local = {
        "before_per_class": before,
        **{moment: summarise_groups(told, moment) for moment in ("before", "after")},
        "drift_diversity": 1 / number + len(method) / 100,
        "clients": told,
        "confusion": {"0": matrix.tolist()},
    }
    assert set(local["before"]) == set(GROUPS)
    record = {
        "round": number,
        "accuracy": accuracy,
        "loss": 2 - accuracy,
        "per_class": before,
        "cohort": list(range(clients)),
        "left_out": [],
        "train_loss": 1 / number,
        "server": {},
        **({"local": local} if number % 2 == 0 else {}),
    }
    timing = {"round": number, "seconds": 0.5, "train_seconds": 0.4, "samples": 400, "samples_per_second": 1000.0}
    return record, timing


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
