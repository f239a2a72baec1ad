"""The paper's table of CIFAR-10's clients comes out cell by cell, without the data set."""

from __future__ import annotations

import numpy as np

from fedvls.partition import dirichlet
from fedvls.studies.plan import Scale
from fedvls.studies.reproduce import choose_cells, reproduce
from fedvls.studies.study import load_study

# The paper's table for client 0 and class 0, typed from it; the rest is in the study's file.
CLIENT_0 = [0, 0, 0, 141, 0, 1471, 0, 0, 1360, 366]
CLASS_0 = [0, 57, 0, 600, 0, 4342, 0, 0, 0, 1]


def published() -> np.ndarray:
    """[class, client] as printed."""
    values = load_study("client-distribution").published
    return np.array([[cell.mean for cell in values[f"class {k}"]] for k in range(10)])


def test_all_hundred_cells_are_the_published_ones(tmp_path):
    selection = choose_cells("client-distribution", {}, None, Scale())
    table, _ = reproduce(selection, tmp_path, None)
    measured = np.array([[table.entry(row, column).mean for column in table.columns] for row in table.rows])
    np.testing.assert_array_equal(measured, published())
    assert measured[:, 0].tolist() == CLIENT_0
    assert measured[0].tolist() == CLASS_0
    assert measured.sum(axis=1).tolist() == [5000] * 10
    (verdict,) = table.verdicts
    assert [(case.outcome, case.detail) for case in verdict.cases] == [("holds", "100 of 100 cells")]


def test_the_order_of_the_samples_does_not_matter():
    """Why labels alone are exact: a partition shuffles positions of a class, and counts are where it is cut."""
    labels = np.random.RandomState(3).permutation(np.repeat(np.arange(10), 5000))
    split = dirichlet(beta=0.05).split(labels, classes=10, clients=10, seed=1)
    np.testing.assert_array_equal(split.counts.T, published())


def test_the_printed_beta_gives_another_table():
    labels = np.repeat(np.arange(10), 5000)
    split = dirichlet(beta=0.1).split(labels, classes=10, clients=10, seed=1)
    assert (published() == split.counts.T).sum() == 44  # nearly all of them zeros


def test_a_scaled_down_table_does_not_claim_to_be_the_published_one(tmp_path):
    selection = choose_cells("client-distribution", {}, None, Scale(fraction=0.1))
    table, _ = reproduce(selection, tmp_path, None)
    assert table.label == "scaled down: 10 % of the data"
    assert table.verdicts[0].cases[0].outcome == "does not hold"


def test_the_heat_map_needs_every_client(tmp_path):
    table, files = reproduce(choose_cells("client-distribution", {"client": ["0", "3"]}, None, Scale()), tmp_path, None)
    assert len(table.columns) == 2
    assert not [file for file in files if file.suffix == ".png"]  # its rows would be numbered wrongly
