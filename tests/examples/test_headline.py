"""The README's headline tables are what the archived runs come to."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from support import ROOT, run_command

PAIR = r"([\d.]+) \(([\d.]+)\)"
MNIST = re.compile(rf"^\| (\w+) \| {PAIR} \| {PAIR} \| {PAIR} \|$", re.MULTILINE)
CIFAR = re.compile(rf"^\| (\w+) \| {PAIR} \| ([\d.]+) -> ([\d.]+) \|$", re.MULTILINE)
FEW = re.compile(r"^\| (\w+) \| ([\d.]+) \| ([\d.]+) -> ([\d.]+) \|$", re.MULTILINE)
BF16 = ("--dataset", "cifar10", "--seeds", 0, "--dtype", "bf16", "--unfinished")


def readme(rows: re.Pattern[str]) -> dict[str, list[float]]:
    """Numbers by method."""
    found = {row[0]: [float(number) for number in row[1:]] for row in rows.findall((ROOT / "README.md").read_text())}
    assert {"fedavg", "fedlc", "fedvls"} <= found.keys()
    return found


def cells(study: str, *choice: object, folder: Path) -> list[dict[str, Any]]:
    archive = ("--from-archive", ROOT / "results", "--out", folder, "--json")
    found: list[dict[str, Any]] = json.loads(
        run_command("reproduce", study, *choice, *archive, cwd=folder, check=True).stdout
    )["cells"]
    return found


def test_numbers_of_mnist_are_those_of_the_archive(tmp_path):
    found = readme(MNIST)
    measured = cells("dirichlet", "--dataset", "mnist", "--methods", ",".join(found), folder=tmp_path)
    for method, numbers in found.items():
        own = [cell for cell in measured if cell["row"] == method]
        wanted = [round(value, 1) for cell in own for value in (cell["measured"]["mean"], cell["published"]["mean"])]
        assert numbers == wanted, method


def test_numbers_of_cifar10_are_those_of_the_archive(tmp_path):
    found = readme(CIFAR)
    methods = ("--methods", ",".join(found))
    best = cells("communication-rounds", *BF16, "--beta", 0.05, "--only", "first=40", *methods, folder=tmp_path)
    rows = ("--only", f"row={','.join(found)}")
    vacant = cells("forgetting", *BF16, "--only", "group=vacant", *rows, folder=tmp_path)
    for method, numbers in found.items():
        paper = next(cell["published"]["mean"] for cell in best if cell["row"] == method)
        measured = [cell["measured"]["mean"] for cell in (*best, *vacant) if cell["row"] == method]
        assert numbers == [round(value, 1) for value in (measured[0], paper, *measured[1:])], method


def test_numbers_of_few_clients_are_those_of_the_archive(tmp_path):
    found = readme(FEW)
    choice = ("--dataset", "mnist", "--methods", ",".join(found))
    best = cells("participation", *choice, "--only", "participation=0.3", folder=tmp_path)
    vacant = cells("forgetting", *choice, "--only", "group=vacant", folder=tmp_path)
    for method, numbers in found.items():
        measured = [cell["measured"]["mean"] for cell in (*best, *vacant) if cell["row"] == method]
        assert numbers == [round(value, 1) for value in measured], method
