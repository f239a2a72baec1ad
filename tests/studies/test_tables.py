"""What is said in a table: numbers beside the published ones, and how far the setting is from the paper's."""

from __future__ import annotations

import csv
import json
import math

import pytest

from fedvls.callbacks import Callback
from fedvls.errors import UsageError
from fedvls.studies.execute import here
from fedvls.studies.plan import Scale
from fedvls.studies.readings import largest_shares, mean_priors, read_value, readable
from fedvls.studies.render import caption, render
from fedvls.studies.reproduce import choose_cells, reproduce
from fedvls.studies.study import load_study, narrowed

QUICK = ("model={name: mlp, width: 16}", "epochs=1")
ASKED = {"dataset": ["mnist"], "beta": ["0.05"], "method": ["fedavg", "fedvls"]}


@pytest.fixture(scope="module")
def small(tmp_path_factory, data_dir):
    """Two methods, two seeds, four rounds of MNIST at 0.05."""
    root = tmp_path_factory.mktemp("small")
    place = {"data_dir": str(data_dir), "device": "cpu", "engine": "sequential"}
    selection = choose_cells("dirichlet", ASKED, [0, 1], Scale(4, 0.75, QUICK, place))
    return root, selection, *reproduce(selection, root, here(lambda job: Callback()))


def curves(selection, root, method):
    """Accuracies of every round, from the runs' own files."""
    jobs = next(c.jobs for c in selection.cells if c.row.label == method)
    texts = {seed: (job.folder(root / "runs") / "metrics.jsonl").read_text() for seed, job in jobs.items()}
    return {seed: [json.loads(line)["accuracy"] for line in text.splitlines()] for seed, text in texts.items()}


@pytest.mark.parametrize("score", ["best", "last", "mean_last_five"])
def test_measured_values_are_those_of_the_runs_for_every_score(small, score):
    root, selection, *_ = small
    table, _ = reproduce(selection, root, None, score)
    pick = {"best": max, "last": lambda c: c[-1], "mean_last_five": lambda c: sum(c) / len(c)}[score]  # of four rounds
    for row in table.rows:
        values = [100 * pick(curve) for curve in curves(selection, root, row.label).values()]
        entry = table.entry(row, table.columns[0])
        assert list(entry.measured.values()) == pytest.approx(values)
        assert entry.mean == pytest.approx(sum(values) / 2)
        assert entry.std == pytest.approx(abs(values[0] - values[1]) / 2)  # of two values, ddof 0
        printed = {"fedavg": (94.77, 0.44), "fedvls": (95.56, 0.12)}[row.label]  # the paper's table
        assert (entry.published.mean, entry.published.std) == printed
        assert entry.difference == pytest.approx(entry.mean - printed[0])


def test_a_scaled_down_table_says_so_in_every_form(small):
    root, _, table, files = small
    label = (
        "scaled down: 4 of 50 rounds, 75 % of the data; not the paper's setting: model={name: mlp, width: 16}, epochs=1"
    )
    assert table.label == label
    assert {file.parent for file in files} == {root / "dirichlet-4-rounds-75-percent-scaled-down"}
    assert label[1:] in caption(table)
    assert label[1:] in render(table, "markdown")
    assert "4 of 50 rounds" in render(table, "markdown").split("\n\n")[1]  # in the column's head too
    caption_line = next(line for line in render(table, "latex").splitlines() if line.startswith(r"\caption"))
    assert r"caled down: 4 of 50 rounds, 75 \% of the data" in caption_line
    assert {line["label"] for line in csv.DictReader(render(table, "csv").splitlines())} == {label}
    told = json.loads(render(table, "json"))
    assert (told["scaled_down"], told["label"]) == (True, label)
    assert {(cell["rounds"], cell["paper_rounds"]) for cell in told["cells"]} == {(4, 50)}


def test_a_finished_cell_is_not_run_again(small):
    root, selection, *_ = small

    def refuse(jobs, where):
        raise AssertionError([job.name for job in jobs])

    reproduce(selection, root, refuse)


def test_a_cell_whose_metrics_are_gone_is_run_again(small):
    root, selection, *_ = small
    job = selection.jobs[0]
    log = job.folder(root / "runs") / "metrics.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole[: len(whole) // 2])
    assert not job.is_finished(root / "runs")
    log.write_bytes(whole)
    assert job.is_finished(root / "runs")


def test_the_papers_own_setting_has_no_label():
    assert Scale().label([50, 100]) == ""
    assert Scale(rounds=100, fraction=1.0).label([50, 100]) == ""


def test_a_start_that_is_scaled_down_is_told_too(tmp_path):
    selection = choose_cells("classwise-kd", {"row": ["fedvls"]}, [0], Scale(rounds=7))
    table, _ = reproduce(selection, tmp_path, None)
    assert {cell.jobs[0].config.rounds for cell in selection.cells} == {1}
    assert table.label == "scaled down: 7 of 100 rounds"


def test_what_is_not_measured_is_a_dash_and_no_claim(tmp_path):
    selection = choose_cells("quantity", {"method": ["fedavg", "fedvls"], "dataset": ["cifar10"]}, [0], Scale())
    table, _ = reproduce(selection, tmp_path, None)
    assert "| fedvls | – (paper 68.03 ± 0.18) |" in render(table, "markdown")  # noqa: RUF001
    assert {case.outcome for verdict in table.verdicts for case in verdict.cases} == {"not measured"}


def test_one_failing_cell_leaves_the_others(tmp_path, data_dir):
    """Of 300 samples, ten clients can have 20 each; twenty cannot."""
    place = {"data_dir": str(data_dir), "device": "cpu", "engine": "sequential"}
    changes = (*QUICK, "partition.beta=5", "partition.min_size=20", "augmentation=none")
    wanted = {"dataset": ["cifar10"], "method": ["fedavg"], "clients": ["10", "20"]}
    selection = choose_cells("client-number", wanted, [0], Scale(1, None, changes, place))
    table, _ = reproduce(selection, tmp_path, here(lambda job: Callback()))
    ten, twenty = (table.entry(table.rows[0], column) for column in table.columns)
    assert ten.failure is None
    assert ten.mean is not None
    assert "20 clients with at least 20 samples each (min_size) need 400 samples" in twenty.failure
    assert twenty.mean is None
    assert "| failed |" in render(table, "markdown")


def test_fewer_rounds_read_the_same_share_of_a_shorter_run():
    records = [{"accuracy": value / 100} for value in range(1, 11)]  # ten rounds instead of a hundred
    read = [read_value("accuracy", records, {"first": n}, "last", 100) for n in (40, 60, 80)]
    assert read == pytest.approx([4, 6, 8])


def test_a_domain_is_read_in_the_round_its_mean_selects():
    records = [
        {"domains": {"mnist": 0.9, "usps": 0.1, "mean": 0.5}},
        {"domains": {"mnist": 0.7, "usps": 0.6, "mean": 0.65}},
    ]
    assert read_value("domain", records, {"domain": "mnist"}, "best", 2) == pytest.approx(70)
    assert math.isnan(read_value("domain", records, {"domain": "svhn"}, "best", 2))


def test_groups_of_classes_are_read_where_clients_were_evaluated_last():
    local = {"before": {"vacant": 0.9, "minority": None}, "after": {"vacant": 0.2, "minority": None}}
    records = readable("group", [{"accuracy": 0.1}, {"accuracy": 0.5, "local": local}, {"accuracy": 0.6}])

    def read(group, moment):
        return read_value("group", records, {"group": group, "moment": moment}, "best", 3)

    assert len(records) == 2
    assert read("vacant", "before") == pytest.approx(90)
    assert read("vacant", "after") == pytest.approx(20)
    assert math.isnan(read("minority", "after"))  # no client has a class of this kind


def test_classes_are_chosen_by_the_prior_their_samples_find():
    """Two clients, counts by hand: class 0 is alone at the first; class 1 has 30 of the 40 at the second."""
    counts = [[60, 0, 0], [0, 30, 10]]
    assert mean_priors(counts) == pytest.approx([1.0, 0.75, 0.25])
    assert mean_priors([[10, 0], [10, 0]])[1] == 0.0
    assert mean_priors([[10, 30], [30, 10]]) == pytest.approx([(10 * 0.25 + 30 * 0.75) / 40] * 2)
    records = [
        {"accuracy": 0.5, "per_class": [0.9, 0.4, 0.2]},
        {"accuracy": 0.6, "per_class": [0.8, 0.6, 0.4]},
        {"accuracy": 0.4, "per_class": [0.1, 0.1, 1.0]},
    ]

    def read(least, below, score="best"):
        return read_value("prior", records, {"least": least, "below": below}, score, 3, counts=counts)

    assert read(0.75, 1.01) == pytest.approx(70)  # the best round is the second: (80 + 60) / 2
    assert read(0.0, 0.5) == pytest.approx(40)
    assert read(0.0, 0.5, "last") == pytest.approx(100)
    assert math.isnan(read(0.3, 0.4))


def test_classes_are_chosen_by_the_share_of_their_largest_holder():
    """By hand: all of class 0 at one client, three quarters of class 1, nobody has class 2."""
    counts = [[60, 10, 0], [0, 30, 0]]
    assert largest_shares(counts) == pytest.approx([1.0, 0.75, 0.0])
    records = [{"accuracy": 0.6, "per_class": [0.8, 0.6, 0.0]}]
    ranges = ((0.95, 1.01, 80), (0.5, 0.95, 60), (0.0, 0.5, 0))
    for least, below, wanted in ranges:
        read = read_value("holder", records, {"least": least, "below": below}, "best", 1, counts=counts)
        assert read == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"method": ["fedvsl"]}, "study 'dirichlet' has no method 'fedvsl'; it has fedavg, "),
        ({"beta": ["0.2"]}, "has no beta '0.2'; it has 0.5, 0.1, 0.05"),
        ({"model": ["cnn"]}, "has no model 'cnn'; that is no axis of it"),
    ],
)
def test_asking_for_what_a_study_lacks_is_an_error(wanted, words):
    with pytest.raises(UsageError, match=words):
        narrowed(load_study("dirichlet"), wanted)


@pytest.mark.parametrize(
    ("wanted", "columns"),
    [
        ({}, ["beta 0.1", "beta 0.05", "shards 2"]),
        ({"beta": ["0.05"]}, ["beta 0.05"]),
        ({"shards": ["2"]}, ["shards 2"]),
        ({"column": ["shards 2", "beta 0.1"]}, ["beta 0.1", "shards 2"]),
    ],
)
def test_asking_for_an_axis_leaves_out_what_lacks_it(wanted, columns):
    rows, found = narrowed(load_study("ag-news"), {"method": ["fedavg", "fedvls"], **wanted})
    assert [row.label for row in rows] == ["fedavg", "fedvls"]
    assert [column.label for column in found] == columns


def test_asking_for_what_excludes_each_other_is_an_error():
    with pytest.raises(UsageError, match=r"nothing with all of these: beta 0.1 or 0.05, shards 2; ask for fewer"):
        narrowed(load_study("ag-news"), {"beta": ["0.1", "0.05"], "shards": ["2"]})


@pytest.mark.parametrize(
    ("pieces", "found"),
    [
        (["fedvls", "lam 0.01"], ["fedvls, lam 0.01"]),
        (["fedvls"], ["fedvls"]),
        (
            ["fedavg", "fedvls", "lam 0.01", "fedvls", "no suppression"],
            ["fedavg", "fedvls, lam 0.01", "fedvls", "no suppression"],
        ),
        (["fedvls, lam 10.0", "fedavg"], ["fedvls, lam 10.0", "fedavg"]),
    ],
)
def test_a_label_with_a_comma_can_be_asked_for_in_pieces(pieces, found):
    rows, _ = narrowed(load_study("explanations"), {"row": pieces})
    assert {row.label for row in rows} == set(found)


def test_a_label_that_is_not_there_is_told_beside_those_that_are():
    with pytest.raises(
        UsageError, match=r"no row 'lam 0.5'; it has fedavg, .*, 'fedvls, lam 0.01', 'fedvls, lam 1.0',"
    ):
        narrowed(load_study("explanations"), {"row": ["fedavg", "lam 0.5"]})
