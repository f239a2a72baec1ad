"""Minutes of a study's runs, by cell and device."""

from __future__ import annotations

import csv
import json

import pytest

from fedvls.studies.cost import caption, cell_text, cost, render
from fedvls.studies.plan import Scale
from fedvls.studies.reproduce import choose_cells
from made_runs import made

GPU, CPU = "cuda: NVIDIA H200", "cpu: x86_64"
MNIST = {"dataset": ["mnist"], "beta": ["0.5", "0.1"], "method": ["fedavg", "fedvls"]}


def took(job, root, device, seconds, finished=True):
    """A run of two rounds that took so long each."""
    records = [{"round": n, "accuracy": 0.5} for n in (1, 2)]
    timing = [{"round": n, "seconds": seconds} for n in (1, 2, 3)]  # the third was lost with its metrics
    made(job, root, records, finished=finished, timing=timing, device=device)


@pytest.fixture
def table(tmp_path):
    """FedAvg: two seeds, one on each device; FedVLS at 0.5: one of two finished; at 0.1 nothing."""
    selection = choose_cells("dirichlet", MNIST, (0, 1), Scale())
    jobs = {(c.row.label, c.axes["beta"], seed): job for c in selection.cells for seed, job in c.jobs.items()}
    took(jobs["fedavg", 0.5, 0], tmp_path, GPU, 30)
    took(jobs["fedavg", 0.5, 1], tmp_path, CPU, 300)
    took(jobs["fedvls", 0.5, 0], tmp_path, GPU, 90)
    took(jobs["fedvls", 0.5, 1], tmp_path, GPU, 600, finished=False)
    return lambda unfinished=False: cost(selection.study, selection.cells, tmp_path, unfinished)


def test_minutes_of_the_rounds_that_count_are_summed_over_seeds_by_device(table):
    found = table()
    assert list(found.cells.values()) == [{GPU: 1.0, CPU: 10.0}, {}, {GPU: 3.0}, {}]
    assert found.total == {GPU: 4.0, CPU: 10.0}
    assert found.runs == 3
    assert cell_text(found.total) == "4.0 cuda + 10.0 cpu"
    assert f"3 runs, 4.0 cuda + 10.0 cpu in all; {GPU}, {CPU}" in caption(found)


def test_unfinished_runs_count_when_asked_for(table):
    assert list(table(unfinished=True).cells.values())[2] == {GPU: 23.0}


def test_a_run_that_several_cells_read_counts_once_in_the_sum(tmp_path):
    selection = choose_cells("communication-rounds", {"beta": ["0.05"], "method": ["fedavg"]}, (0,), Scale())
    (job,) = selection.jobs
    took(job, tmp_path, GPU, 60)
    found = cost(selection.study, selection.cells, tmp_path)
    assert len(found.cells) > 1
    assert all(cell == {GPU: 2.0} for cell in found.cells.values())
    assert (found.total, found.runs) == ({GPU: 2.0}, 1)


def test_every_format_has_the_numbers(table):
    found = table()
    assert "| fedavg | 1.0 cuda + 10.0 cpu | – |" in render(found, "markdown")  # noqa: RUF001
    assert "3.0 cuda" in render(found, "latex")
    rows = list(csv.DictReader(render(found, "csv").splitlines()))
    assert [(row["row"], row["device"], float(row["minutes"])) for row in rows] == [
        ("fedavg", GPU, 1.0),
        ("fedavg", CPU, 10.0),
        ("fedvls", GPU, 3.0),
    ]
    assert json.loads(render(found, "json"))["minutes"] == {GPU: 4.0, CPU: 10.0}


def test_without_a_run_there_is_a_table_of_dashes(tmp_path):
    selection = choose_cells("dirichlet", MNIST, (0,), Scale())
    found = cost(selection.study, selection.cells, tmp_path)
    assert caption(found) == "No run yet."
    assert "| fedavg | – | – |" in render(found, "markdown")  # noqa: RUF001
