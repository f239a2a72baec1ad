"""The README's headline tables are what the archived runs come to."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from support import ROOT, run_command

PAIR = r"([\d.]+) \(([\d.]+)\)"
MNIST = re.compile(rf"^\| (\w+) \| {PAIR} \| {PAIR} \| {PAIR} \|$", re.MULTILINE)
NUMBER = r"(?:([\d.]+) )?"
CIFAR = re.compile(
    rf"^\| (\w+(?:, authors' teacher)?) \| {NUMBER}\| {NUMBER}\| ([\d.]+) \| (?:([\d.]+) -> ([\d.]+) )?\|$",
    re.MULTILINE,
)
FEW = re.compile(r"^\| (\w+) \| ([\d.]+) \| ([\d.]+) -> ([\d.]+) \|$", re.MULTILINE)
BF16 = ("--dataset", "cifar10", "--dtype", "bf16", "--unfinished")


def readme(rows: re.Pattern[str]) -> dict[str, list[float]]:
    """Numbers by method."""
    every = rows.findall((ROOT / "README.md").read_text())
    found = {row[0]: [float(number or "nan") for number in row[1:]] for row in every}
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


@pytest.mark.parametrize("more", [(), ("--set", "teacher_mode=train")], ids=["ours", "authors"])
def test_numbers_of_cifar10_are_those_of_the_archive(tmp_path, more):
    """With the teacher in evaluation mode, and in training mode as in the authors' program."""
    every = readme(CIFAR)
    found = {name.partition(",")[0]: row for name, row in every.items() if ("," in name) == bool(more)}
    assert {"fedntd", "fedvls"} <= found.keys()
    column = ("--beta", 0.05, "--only", "first=40", "--methods", ",".join(found), *more, "--seeds")
    first, second = (cells("communication-rounds", *BF16, *column, seed, folder=tmp_path) for seed in (0, 1))
    told = [method for method, row in found.items() if not math.isnan(row[-1])]
    rows = ("--only", "group=vacant", "--only", f"row={','.join(told)}", *more, "--seeds", 0)
    vacant = cells("forgetting", *BF16, *rows, folder=tmp_path)
    assert {cell["rounds"] for cell in vacant} == {40}
    for method, numbers in found.items():
        measured = [cell["measured"] for cell in (*first, *second, *vacant) if cell["row"] == method]
        own = [round(value["mean"], 1) if value else math.nan for value in measured]
        own += [math.nan] * (4 - len(own))
        paper = next(round(cell["published"]["mean"], 1) for cell in first if cell["row"] == method)
        assert numbers == pytest.approx([*own[:2], paper, *own[2:]], nan_ok=True), method


def test_numbers_of_few_clients_are_those_of_the_archive(tmp_path):
    found = readme(FEW)
    choice = ("--dataset", "mnist", "--methods", ",".join(found))
    best = cells("participation", *choice, "--only", "participation=0.3", folder=tmp_path)
    vacant = cells("forgetting", *choice, "--only", "group=vacant", folder=tmp_path)
    for method, numbers in found.items():
        measured = [cell["measured"]["mean"] for cell in (*best, *vacant) if cell["row"] == method]
        assert numbers == [round(value, 1) for value in measured], method
