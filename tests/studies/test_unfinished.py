"""Runs that are not finished count as far as they have come, at equal rounds, and every table says so."""

from __future__ import annotations

import csv
import json
import math

import pytest

from fedvls.studies.plan import Scale
from fedvls.studies.readings import read_value
from fedvls.studies.render import caption, render
from fedvls.studies.reproduce import choose_cells, reproduce
from made_runs import made

CIFAR = {"dataset": ["cifar10"], "beta": ["0.05"], "method": ["fedavg", "fedlc", "fedvls"]}


def came_so_far(job, root, rounds, slope=0.001):
    """A run of a job that has come so far: accuracy is slope times the round, clients were evaluated every tenth."""
    records = [{"round": n, "accuracy": slope * n, "per_class": [slope * n] * 10} for n in range(1, rounds + 1)]
    for record in records:
        if record["round"] % 10 == 0 or record["round"] == job.config.rounds:
            clients = [{"client": 0, "per_class": [slope * record["round"] / 2] * 10}]
            record["local"] = {"drift_diversity": record["round"] / 10, "clients": clients}
    made(job, root / "runs", records, finished=rounds == job.config.rounds)


def table_of(root, name, asked, lengths, unfinished=True, seeds=(0,), scale=Scale()):  # noqa: B008
    """The table of a study whose runs, in order, have come so far."""
    selection = choose_cells(name, asked, seeds, scale)
    for job, rounds in zip(selection.jobs, lengths, strict=True):
        if rounds:
            came_so_far(job, root, rounds)
    return reproduce(selection, root, None, unfinished=unfinished)


def test_methods_are_compared_at_the_rounds_of_the_shortest_run(tmp_path):
    table, files = table_of(tmp_path, "dirichlet", CIFAR, [37, 100, 52])
    assert [entry.mean for entry in table.entries.values()] == pytest.approx([3.7, 3.7, 3.7])
    assert {(entry.rounds, entry.paper_rounds) for entry in table.entries.values()} == {(37, 100)}
    label = "scaled down: 37 of 100 rounds so far (compared runs are cut to the shortest)"
    assert table.label == label
    assert label[1:] in caption(table)
    assert "| cifar10, beta 0.05, 37 of 100 rounds |" in render(table, "markdown")
    assert {line["label"] for line in csv.DictReader(render(table, "csv").splitlines())} == {label}
    assert {file.parent.name for file in files} == {"dirichlet-scaled-down"}


def test_without_the_option_an_unfinished_run_does_not_count(tmp_path):
    table, _ = table_of(tmp_path, "dirichlet", CIFAR, [37, 100, 52], unfinished=False)
    assert [entry.mean for entry in table.entries.values()] == [None, pytest.approx(10.0), None]
    assert table.label == ""


def test_finished_runs_are_neither_cut_nor_labelled(tmp_path):
    table, _ = table_of(tmp_path, "dirichlet", CIFAR, [100, 100, 0])
    assert [entry.mean for entry in table.entries.values()] == [pytest.approx(10), pytest.approx(10), None]
    assert table.label == ""
    assert "| cifar10, beta 0.05, 100 rounds |" in render(table, "markdown")


def test_seeds_of_different_lengths_are_cut_alike(tmp_path):
    table, _ = table_of(tmp_path, "dirichlet", {**CIFAR, "method": ["fedavg"]}, [60, 45, 0], seeds=(0, 1, 2))
    (entry,) = table.entries.values()
    assert dict(entry.measured) == pytest.approx({0: 4.5, 1: 4.5})
    assert (entry.rounds, entry.length) == (45, 45)


def test_a_mean_over_fewer_seeds_than_were_asked_for_says_so_in_its_cell(tmp_path):
    asked = {**CIFAR, "method": ["fedavg", "fedlc"]}
    table, _ = table_of(tmp_path, "dirichlet", asked, [100, 60, 0, 100, 100, 100], unfinished=False, seeds=(0, 1, 2))
    cells = [line for line in render(table, "markdown").splitlines() if line.startswith("| fed")]
    assert cells == [
        "| fedavg | 10.00, 1 of 3 seeds (paper 62.90 ± 0.95, -52.90) |",
        "| fedlc | 10.00 ± 0.00 (paper 57.31 ± 0.97, -47.31) |",
    ]
    assert [line["seeds"] for line in csv.DictReader(render(table, "csv").splitlines())] == ["0", "0 1 2"]


def test_one_column_does_not_cut_another(tmp_path):
    asked = {**CIFAR, "beta": ["0.1", "0.05"], "method": ["fedavg"]}
    table, _ = table_of(tmp_path, "dirichlet", asked, [80, 20])
    assert [entry.rounds for entry in table.entries.values()] == [80, 20]
    assert table.label == "scaled down: 20 of 100 rounds and 80 of 100 rounds so far"


def test_where_columns_are_compared_the_row_is_cut(tmp_path):
    """Values of lam stand side by side: each data set has its own rounds, whatever the other's."""
    asked = {"dataset": ["cifar10", "cifar100"], "lam": ["0.05", "0.1"]}
    table, _ = table_of(tmp_path, "lambda", asked, [70, 30, 100, 100])
    assert [entry.rounds for entry in table.entries.values()] == [30, 30, 100, 100]
    assert "lam 0.05, 30 of 100 / 100 rounds" in render(table, "markdown")


def test_the_first_forty_rounds_are_forty_rounds_of_an_unfinished_run_or_nothing(tmp_path):
    asked = {"beta": ["0.05"], "method": ["fedavg", "fedvls"]}
    table, files = table_of(tmp_path, "communication-rounds", asked, [57, 90])
    values = [[table.entry(row, column).mean for column in table.columns] for row in table.rows]
    assert values == [[pytest.approx(4.0), None, None], [pytest.approx(v) for v in (4.0, 6.0, 8.0)]]
    assert table.label == ""  # what is shown is the paper's setting
    assert "first 40 rounds, beta 0.05, 40 rounds" in render(table, "markdown")
    assert {file.parent.name for file in files} == {"communication-rounds"}


def test_a_scaled_down_run_that_is_unfinished_is_read_at_its_share():
    records = [{"accuracy": n / 100} for n in range(1, 7)]  # six of ten rounds, which stand for a hundred
    assert read_value("accuracy", records, {"first": 40}, "last", 100, planned=10) == pytest.approx(4)
    assert math.isnan(read_value("accuracy", records, {"first": 80}, "last", 100, planned=10))


def test_clients_models_are_read_in_the_last_round_that_evaluated_them(tmp_path):
    table, _ = table_of(tmp_path, "drift", {"dataset": ["cifar10"]}, [37, 59, 100, 9])
    assert [entry.mean for entry in table.entries.values()] == [3.0, 3.0, 3.0, None]  # round 30; none in 9 rounds
    assert table.label.startswith("scaled down: 30 of 100 rounds so far")


def test_local_models_and_their_aggregate_are_read_in_the_same_round(tmp_path):
    table, _ = table_of(tmp_path, "local-and-global", {"class": ["0"]}, [47, 35])
    assert [entry.mean for entry in table.entries.values()] == pytest.approx([1.5, 3.0, 1.5, 3.0])  # of round 30


def test_curves_are_drawn_as_far_as_they_are_compared(tmp_path):
    asked = {"dataset": ["cifar10"], "beta": ["0.1"], "method": ["fedavg", "fedvls"]}
    _, files = table_of(tmp_path, "convergence", asked, [12, 30])
    curves = json.loads(next(file for file in files[0].parent.glob("curves.json")).read_text())
    (rows,) = curves["curves"].values()
    assert {name: len(curve) for name, (curve,) in rows.items()} == {"fedavg": 12, "fedvls": 12}
    assert "12 of 100 rounds so far" in curves["label"]
    assert [file.name for file in files if file.suffix == ".png"] == ["curves-cifar10-beta-0.1.png"]


def test_curves_of_the_first_rounds_end_with_them(tmp_path):
    asked = {"row": ["fedavg", "fedvls"]}
    _, files = table_of(tmp_path, "teacher-mode", asked, [43, 41])
    curves = json.loads(next(file for file in files[0].parent.glob("curves.json")).read_text())["curves"]
    lengths = {column: {len(curve) for (curve,) in rows.values()} for column, rows in curves.items()}
    assert lengths == {"first 12 rounds": {12}, "first 40 rounds": {40}}
