"""The studies' data are whole, and the paper's own numbers support its claims exactly as far as its text says."""

from __future__ import annotations

import pytest

from fedvls import methods  # noqa: F401  (registers them)
from fedvls.method import METHODS
from fedvls.studies.claims import HOLDS, KINDS, UNKNOWN, judge
from fedvls.studies.figures import FIGURES
from fedvls.studies.plan import Scale, plan
from fedvls.studies.readings import READINGS
from fedvls.studies.render import UNITS, render
from fedvls.studies.reproduce import catalogue, choose_cells, reproduce
from fedvls.studies.study import READING, SETTINGS, load_study, names, protocol


@pytest.mark.parametrize("name", names())
def test_what_a_study_says_is_text(name):
    """In YAML a note with a colon is a mapping unless it is quoted."""
    study = load_study(name)
    said = (study.title, study.paper, *study.notes, *(claim["text"] for claim in study.claims))
    assert all(isinstance(text, str) for text in said)


@pytest.mark.parametrize("name", names())
def test_every_study_is_whole(name):
    study = load_study(name)
    labels = {row.label for row in study.rows}
    assert len(labels) == len(study.rows)
    assert len({column.label for column in study.columns}) == len(study.columns)
    assert study.published.keys() <= labels
    assert all(len(values) == len(study.columns) for values in study.published.values())
    assert study.read in {*READINGS, "counts"}
    assert study.unit in UNITS
    assert study.figure is None or study.figure in FIGURES
    for row in study.rows:
        for column in study.columns:
            axes = study.axes(row, column)
            assert axes.keys() <= {*SETTINGS, *READING}
            assert axes["dataset"] in protocol()["datasets"]
            if study.trains:
                assert axes["method"] in METHODS


@pytest.mark.parametrize("name", names())
def test_every_claim_names_rows_or_columns_of_its_study(name):
    study = load_study(name)
    for claim in study.claims:
        assert claim["kind"] in KINDS
        compared = study.columns if claim.get("compare") == "columns" else study.rows
        named = [claim.get("subject"), claim.get("over"), *claim.get("names", ()), *claim.get("among", ())]
        assert {label for label in named if label} <= {point.label for point in compared}
        axes = {axis for point in (*study.rows, *study.columns) for axis in point.axes}
        assert {*claim.get("only", {}), *filter(None, [claim.get("group")])} <= axes


# What the paper's text and tables say, counted by hand: (study, claim) -> cases in which it holds, of how many.
IN_THE_PAPER = {
    ("dirichlet", "FedVLS is first"): (11, 12),  # FedGF is first on MNIST at 0.1
    ("dirichlet", "the lead of FedVLS over FedAvg grows with the skew"): (4, 4),
    ("dirichlet", "FedLC falls below FedAvg under the strongest skew"): (3, 4),  # not on TinyImageNet
    ("quantity", "FedVLS is first"): (2, 3),  # FedLMD is first on CIFAR-10
    ("quantity", "FedVLS is above FedAvg"): (3, 3),
    ("backbones", "FedVLS is first"): (6, 6),
    ("lambda", "FedVLS is not sensitive to lam (spread of at most 2 points)"): (2, 2),  # spreads 1.01 and 0.53
    ("objective", "suppression alone helps"): (3, 3),
    ("objective", "distillation alone helps"): (3, 3),
    ("objective", "distillation alone helps more than suppression alone"): (3, 3),
    ("objective", "both terms together are best"): (3, 3),
    ("combination", "FedLC gains from FedVLS"): (3, 3),
    ("combination", "FedExP gains from FedVLS"): (3, 3),
    ("combination", "FedSAM gains from FedVLS"): (3, 3),
    ("ag-news", "FedVLS is first"): (3, 3),
    ("kd-comparison", "the order is FedVLS, FedNTD, FedDKD, FedKD"): (6, 6),
    ("kd-comparison", "distilling the classes a client has (FedEKD) falls below FedAvg"): (2, 2),
    ("classwise-kd", "FedVLS keeps a vacant class best"): (6, 6),
    ("classwise-kd", "FedVLS is best on average"): (1, 1),
    ("domain-shift", "FPL gains from FedVLS on average"): (2, 2),
    ("domain-shift", "FPL gains from FedVLS in a domain"): (7, 8),  # USPS falls by 0.33 at beta 0.1
    ("domain-shift", "the average gain grows with the skew"): (1, 1),  # 0.81 and 2.08
    ("communication-rounds", "FedVLS is first"): (6, 6),
    ("drift", "FedVLS drifts least"): (1, 1),
    ("drift", "the order is FedVLS, FedLC, FedNTD, FedAvg"): (1, 1),
}


@pytest.mark.parametrize(("name", "text"), IN_THE_PAPER)
def test_claims_computed_from_the_published_numbers_agree_with_the_papers_text(name, text):
    study = load_study(name)
    (claim,) = [claim for claim in study.claims if claim["text"] == text]
    cases = [case for case in judge(claim, study, {}).published if case.outcome != UNKNOWN]
    assert (sum(case.outcome == HOLDS for case in cases), len(cases)) == IN_THE_PAPER[name, text]


def test_published_gains_are_differences_of_published_values():
    """The paper prints gains in its ablation: 18.40, 6.53 and 9.67 points for both terms over neither."""
    published = load_study("objective").published
    gains = [b.mean - a.mean for a, b in zip(published["neither"], published["both"], strict=True) if a and b]
    assert gains == pytest.approx([18.40, 6.53, 9.67])


def test_the_papers_setting_is_what_is_run():
    """CIFAR-100 at 0.05 with FedVLS: lam 0.5, weight decay 1e-4, 100 rounds of 10 epochs, MobileNetV2."""
    study = load_study("dirichlet")
    cells = plan(study, study.rows, study.columns, [0], Scale())
    (cell,) = [c for c in cells if c.axes == {"method": "fedvls", "dataset": "cifar100", "beta": 0.05}]
    config = cell.jobs[0].config
    assert config.method == {"name": "fedvls", "lam": 0.5}
    assert config.partition == {"name": "dirichlet", "beta": 0.05}
    assert config.model["name"] == "mobilenetv2"
    assert (config.rounds, config.epochs, config.weight_decay) == (100, 10, 1e-4)
    assert (config.lr, config.momentum, config.batch_size, config.clients) == (0.01, 0.9, 64, 10)
    (concat,) = [c for c in cells if c.axes == {"method": "fedconcat", "dataset": "mnist", "beta": 0.5}]
    assert (concat.jobs[0].config.rounds, concat.jobs[0].config.epochs) == (50, 10)


def test_studies_share_the_runs_they_have_in_common():
    """lam 0.1 of the sweep, the row "both" of the ablation and the main table's FedVLS on CIFAR-10 are one run."""

    def keys(name: str) -> set[str]:
        study = load_study(name)
        return {job.key for c in plan(study, study.rows, study.columns, [0], Scale()) for job in c.jobs.values()}

    main = keys("dirichlet")
    assert len(main) == 156
    assert len(keys("lambda") & main) == 3  # lam 0.1 on CIFAR-10 and MNIST, 0.5 on CIFAR-100
    assert len(keys("objective") & main) == 4
    assert keys("communication-rounds") <= main
    assert keys("drift") <= main
    assert keys("convergence") <= main


SENSITIVITY = ("lambda", "objective", "participation", "local-epochs", "client-number", "convergence", "drift")


@pytest.mark.parametrize("name", SENSITIVITY)
def test_sensitivity_can_be_measured_on_mnist_with_the_papers_grid_and_its_mnist_setting(name):
    selection = choose_cells(name, {"dataset": ["mnist"]}, [0], Scale())
    assert selection.cells
    assert {selection.study.printed(cell.row, cell.column) for cell in selection.cells} == {None}
    for cell in selection.cells:
        config = cell.jobs[0].config
        assert (config.data["name"], config.model["name"], config.rounds) == ("mnist", "mlp", 50)
        assert config.epochs == cell.axes.get("epochs", 5)
    others = choose_cells(name, {"dataset": ["cifar10"]}, [0], Scale()).cells
    assert len(others) == len(selection.cells)


def test_claims_are_judged_for_each_data_set_by_itself():
    study = load_study("participation")
    (claim,) = study.claims
    measured = {("fedvls", "mnist, participation 0.3"): 90.0, ("fedavg", "mnist, participation 0.3"): 80.0}
    outcomes = {case.where: case.outcome for case in judge(claim, study, measured).cases}
    assert [where for where, outcome in outcomes.items() if outcome == HOLDS] == ["mnist, participation 0.3"]
    assert outcomes["cifar10, participation 0.3"] == UNKNOWN


def test_two_domains_have_six_clients_each_and_are_not_taken_for_the_papers_four():
    selection = choose_cells("domain-shift", {"dataset": ["mnist+usps"], "domain": ["mean"]}, [0], Scale())
    config = selection.cells[0].jobs[0].config
    assert config.data == {"name": "digits-domains", "domains": "mnist,usps"}
    assert (config.clients, config.partition["clients_per_domain"], config.model["name"]) == (12, 6, "resnet10")
    assert [column.label for column in selection.columns] == [
        "mnist+usps (not the paper's setting), beta 0.1, mean",
        "mnist+usps (not the paper's setting), beta 0.05, mean",
    ]
    four = choose_cells("domain-shift", {"dataset": ["digits-domains"]}, [0], Scale())
    assert {cell.jobs[0].config.clients for cell in four.cells} == {24}
    assert all(four.study.printed(cell.row, cell.column) for cell in four.cells)


def test_the_released_programs_protocol_is_what_the_notes_say():
    selection = choose_cells("released-protocol", {"beta": ["0.05"]}, [0], Scale())
    made = {(cell.row.label, cell.axes["scored"]): cell.jobs[0].config for cell in selection.cells}
    for (method, scored), config in made.items():
        assert config.data == {"name": "mnist", "merged_split": 0.75, "evaluate_on": scored}
        assert config.partition["min_size"] == 192
        assert config.persistent_momentum == (method != "fedvls")
        assert config.weight_decay == (0.0 if method == "fedvls" else 1e-5)
    assert [column.label for column in selection.columns] == [
        "beta 0.05, scored on its test data",
        "beta 0.05, scored on its training data",
    ]


def test_every_explanation_changes_one_thing_of_fedvls():
    selection = choose_cells("explanations", {"dataset": ["cifar10"]}, [0], Scale())
    plain = next(cell for cell in selection.cells if cell.row.label == "fedvls").jobs[0].config
    changed = [cell.jobs[0].config.differences(plain) for cell in selection.cells if cell.axes["method"] == "fedvls"]
    assert [len(each) for each in changed] == [0] + [1] * (len(changed) - 1)


def test_a_cell_in_which_nothing_can_differ_has_no_run_and_is_a_dash(tmp_path):
    """MNIST's network has no BatchNorm, so the teacher's mode is none of its choices."""
    selection = choose_cells("explanations", {"row": ["teacher in training mode"]}, [0], Scale())
    assert [job.config.data["name"] for job in selection.jobs] == ["cifar10"]
    table, _ = reproduce(selection, tmp_path, None)
    assert "| teacher in training mode | – | – |" in render(table, "markdown")  # noqa: RUF001


def test_the_list_counts_cells_and_runs():
    rows = {row["name"]: row for row in catalogue()}
    assert (rows["dirichlet"]["cells"], rows["dirichlet"]["runs"]) == (156, 468)
    # seven methods' updates of three seeds need six runs each (one row is the start itself) and three starts
    assert (rows["classwise-kd"]["cells"], rows["classwise-kd"]["runs"]) == (77, 6 * 3 + 3)
    assert rows["client-distribution"]["runs"] == 0
    assert rows["participation"]["published"] == "partly"
    assert rows["confusion"]["published"] == "no"
