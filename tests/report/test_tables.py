"""Runs become rows: seeds of one configuration together, wherever they were computed."""

from __future__ import annotations

import pytest
from support import write_run

from fedvls.report.tables import summarise
from fedvls.runs.store import find_runs


def rows_of(folder):
    return [(row.method, row.seeds) for row in summarise(find_runs([folder]))]


def test_seeds_computed_in_different_places_are_one_row(tmp_path):
    write_run(tmp_path / "a", seed=0, device="cpu", data={"name": "digits", "data_dir": "/here"})
    write_run(tmp_path / "b", seed=1, device="cuda", engine="stacked", data={"name": "digits", "data_dir": "/there"})
    write_run(tmp_path / "c", seed=2, device="cpu", threads=4, data={"name": "digits"})
    assert rows_of(tmp_path) == [("fedavg", [0, 1, 2])]


def test_a_seed_run_in_two_places_is_not_counted_twice_in_a_row(tmp_path):
    for place, engine in (("a", "sequential"), ("b", "stacked")):
        for seed in (0, 1):
            write_run(tmp_path / f"{place}{seed}", seed=seed, engine=engine)
    assert rows_of(tmp_path) == [("fedavg", [0, 1]), ("fedavg", [0, 1])]


@pytest.mark.parametrize("other", [{"lr": 0.5}, {"rounds": 3}, {"dtype": "float64"}, {"method": "fedlc"}])
def test_whatever_changes_the_run_makes_a_row_of_its_own(tmp_path, other):
    write_run(tmp_path / "a", seed=0)
    write_run(tmp_path / "b", seed=1, **other)
    assert len(rows_of(tmp_path)) == 2
