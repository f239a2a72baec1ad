"""Every study, scaled down, from start to table, on tiny data in the real file formats."""

from __future__ import annotations

import csv
import json

import pytest

from fedvls.callbacks import Callback
from fedvls.studies.execute import here
from fedvls.studies.plan import Scale
from fedvls.studies.reproduce import choose_cells, reproduce
from fedvls.studies.study import load_study, names

# Small networks and one epoch: a study's own network is trained where it is the subject, and in tests/contract.
QUICK = ("epochs=1", "model={name: mlp, width: 8}", "augmentation=none")
CHANGES = {
    "ag-news": ("epochs=1", "model={name: fasttext, dimension: 4}", "clients=4"),
    "backbones": ("epochs=1", "clients=2", "augmentation=none"),
    "local-epochs": QUICK[1:],
    "client-number": (*QUICK, "partition.beta=0.5", "partition.min_size=1"),
    **dict.fromkeys(("released-protocol", "explanations"), (*QUICK, "partition.min_size=1")),
}
# Three rows where rows are methods: the paper's, one it calibrates like, the plain one.
METHODS = {"method": ["fedavg", "fedlc", "fedvls"]}
PARTS = {
    **dict.fromkeys(
        ("dirichlet", "quantity", "convergence", "participation", "local-epochs", "client-number"), METHODS
    ),
    "backbones": {"method": ["fedvls"], "beta": ["0.05"]},
    "ag-news": {"method": ["fedavg", "fedconcat", "fedvls"]},
    "communication-rounds": METHODS,
    "variants": {"dataset": ["mnist", "cifar10"]},  # texts have another network: they are in "ag-news"
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """One folder for all studies, which share runs."""
    return tmp_path_factory.mktemp("studies")


@pytest.mark.parametrize("name", names())
def test_every_study_runs_from_start_to_table(name, root, data_dir):
    place = {"data_dir": str(data_dir), "device": "cpu", "engine": "sequential"}
    study = load_study(name)
    scale = Scale(1, 0.9, CHANGES.get(name, QUICK), place) if study.trains else Scale()
    seeds = [1] if name == "confusion" else [0]
    selection = choose_cells(name, PARTS.get(name, {}), seeds, scale)
    table, files = reproduce(selection, root, here(lambda job: Callback()))
    assert {entry.failure for entry in table.entries.values()} == {None}
    assert all((e.mean is not None) == study.has(e.row, e.column) for e in table.entries.values())
    assert all(case.outcome != "not measured" for v in table.verdicts for case in v.cases) or name in PARTS
    assert bool(table.label) == study.trains
    by_ending = {file.suffix: file for file in files}
    told = json.loads(by_ending[".json"].read_text())
    assert told["label"] == table.label
    assert len(told["cells"]) == len(table.rows) * len(table.columns)
    lines = list(csv.DictReader(by_ending[".csv"].read_text().splitlines()))
    assert {line["label"] for line in lines} == {table.label}
    if study.trains:
        for ending in (".md", ".tex"):
            text = by_ending[ending].read_text().replace("\\%", "%").replace("\\_", "_")
            assert "caled down: 1 of" in text
            assert "rounds, 90 % of the data; not the paper's setting: " in text
    assert (".png" in by_ending) == (study.figure is not None)
    if study.figure:
        assert by_ending[".png"].stat().st_size > 5000


def test_the_main_table_runs_with_all_thirteen_methods(root, data_dir):
    place = {"data_dir": str(data_dir), "device": "cpu", "engine": "sequential"}
    selection = choose_cells("dirichlet", {"dataset": ["mnist"], "beta": ["0.05"]}, [0], Scale(1, 0.9, QUICK, place))
    table, _ = reproduce(selection, root, here(lambda job: Callback()))
    assert len(table.rows) == 13
    assert all(entry.mean is not None for entry in table.entries.values())
    (first, *_) = table.verdicts
    (measured,) = [case for case in first.cases if case.outcome != "not measured"]
    assert "of 13;" in measured.detail


def test_two_domains_run_where_the_other_two_are_missing(tmp_path, data_dir):
    for name in ("mnist", "usps"):
        (tmp_path / name).symlink_to(data_dir / name)
    place = {"data_dir": str(tmp_path), "device": "cpu", "engine": "sequential"}
    asked = {"dataset": ["mnist+usps"], "beta": ["0.1"]}
    selection = choose_cells("domain-shift", asked, [0], Scale(1, None, QUICK, place))
    table, _ = reproduce(selection, tmp_path / "out", here(lambda job: Callback()))
    assert all(entry.mean is not None for entry in table.entries.values())
