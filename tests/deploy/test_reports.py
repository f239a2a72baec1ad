"""Reports, figures and tables of deployments: they hold what the server knows, and say what stays at the sites."""

from __future__ import annotations

import json
import re

import pytest
from support import run_command

from deploy.loopback import DIAGNOSES, Loopback, deploy, hospitals, identify, node_configs, settings, silence, simulated
from fedvls.errors import RunError, UsageError
from fedvls.flower import client_app, server_app
from fedvls.report.bundle import collect
from fedvls.report.figures import KINDS, draw, find_kind
from fedvls.report.figures.view import view_of
from fedvls.report.html import write_page
from fedvls.runs.store import find_runs

# What the simulator finds out by itself and writes into its configuration; a server has no data to ask.
RESOLVED = {"partition.min_size": 10, "partition.max_tries": 1000, "augmentation.name": "none"}
REFUSED = {
    "classwise": "FedVLS is a deployment: the accuracy of local models per class stays at the sites",
    "groups": "FedVLS is a deployment: the accuracy of local models per class stays at the sites",
    "heatmap": "a deployment has no heat map: class counts do not leave the sites",
    "confusion": "no confusion matrix in a deployment: the sites send none",
    "drift": "no round of these runs has a drift diversity: it is measured in simulated runs only",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """`hospitals`: data at the sites; `mixed`: the digits, once at sites (they evaluate too) and once simulated."""
    folder = tmp_path_factory.mktemp("deployed")
    hospitals(folder)
    config = settings(folder / "mixed" / "at-sites", **{"server.evaluate_every": 1}, **RESOLVED)
    with pytest.MonkeyPatch.context() as patch:
        silence(patch, folder / "flwr")
        identify(patch)
        deploy(server_app(), Loopback(client_app(), node_configs(3, folder / "state"), config))
    simulated(config, out=folder / "mixed" / "simulated", local_every=1, confusion=[0])
    return folder


@pytest.fixture(scope="module")
def bundle(folder):
    return collect(find_runs([folder / "hospitals"]))


@pytest.fixture(scope="module")
def mixed(folder):
    return collect(find_runs([folder / "mixed"]))


def test_the_numbers_are_those_of_the_servers_log(folder, bundle):
    (run,) = bundle["runs"]
    records = find_runs([folder / "hospitals"])[0].records()
    assert bundle["settings"] == ["data at 3 sites"]
    assert run["curves"]["accuracy"] == pytest.approx([r["accuracy"] for r in records], rel=1e-5)
    assert run["curves"]["sites.accuracy"] == run["curves"]["accuracy"]  # nobody else has test data
    assert len(run["seconds"]) == 3
    (held,) = bundle["partitions"]
    assert held["class_names"] == list(DIAGNOSES)
    assert held["counts"] == []
    assert held["vacant_per_client"] is None


def test_an_update_that_did_not_count_is_in_the_numbers_with_its_reason(bundle):
    (run,) = bundle["runs"]
    assert run["left_out"] == 1
    assert run["refused"] == [{"round": 2, "who": "site 1", "reason": "no answer: Node Unavailable"}]


def test_the_page_is_written_and_needs_nothing_else(folder):
    done = run_command("report", "hospitals", "-o", "page.html", cwd=folder, check=True)
    assert done.stdout == "report: page.html\n"
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert "<title>data at 3 sites</title>" in page
    assert re.findall(r"\b(?:https?:)?//[\w.]+\.\w+", page.replace("http://www.w3.org/2000/svg", "")) == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_figure_is_drawn_or_refused_in_one_line(bundle, tmp_path, kind):
    path = tmp_path / f"{kind}.svg"
    if kind not in REFUSED:
        assert draw(find_kind(kind), view_of(bundle), path).stat().st_size > 1000
        return
    with pytest.raises(RunError) as refused:
        draw(find_kind(kind), view_of(bundle), path)
    assert str(refused.value) == REFUSED[kind]
    assert not path.exists()


def test_the_commands_exit_code_says_that_a_figure_was_refused(folder):
    done = run_command("plot", "heatmap", "hospitals", cwd=folder)
    assert done.returncode == 2
    assert done.stderr == f"error: {REFUSED['heatmap']}\n"


def test_show_and_watch_tell_the_accuracies(folder):
    last = find_runs([folder / "hospitals"])[0].records()[-1]["accuracy"]
    shown = run_command("show", "hospitals", cwd=folder, check=True).stdout
    assert f"{100 * last:.2f}" in shown
    assert "data at 3 sites" in shown
    (row,) = json.loads(run_command("show", "hospitals", "--json", cwd=folder, check=True).stdout)
    assert row["last"]["mean"] == pytest.approx(last)
    assert row["vacant_per_client"] is None
    watched = run_command("watch", "hospitals", "--once", cwd=folder, check=True).stdout
    assert "3/3" in watched
    assert "complete" in watched
    assert f"{100 * last:.2f}" in watched


def test_a_confusion_matrix_is_refused(folder):
    done = run_command("show", "hospitals", "--confusion", 0, cwd=folder)
    assert done.returncode == 2
    assert done.stderr == f"error: hospitals: {REFUSED['confusion']}\n"


def test_a_deployed_and_a_simulated_run_of_one_setting_are_one_line(mixed):
    """The simulator's promise is the same bits, so both are the same method in the same setting."""
    assert mixed["groups"] == [{"method": 0, "setting": 0}]
    at_sites, simulation = mixed["runs"]
    assert at_sites["curves"]["accuracy"] == simulation["curves"]["accuracy"]
    assert at_sites["local"] == []
    assert simulation["local"] != []
    assert [bool(held["counts"]) for held in mixed["partitions"]] == [False, True]


@pytest.mark.parametrize("kind", KINDS)
def test_every_figure_of_both_is_drawn_from_the_one_that_knows(mixed, tmp_path, kind):
    assert draw(find_kind(kind), view_of(mixed), tmp_path / f"{kind}.svg").stat().st_size > 1000


def test_runs_at_sites_and_simulated_ones_share_a_page_and_tables(folder):
    runs = find_runs([folder / "hospitals", folder / "mixed"])
    assert write_page(runs, folder / "both.html").stat().st_size > 50_000
    with pytest.raises(UsageError, match="choose one with --setting: 1: data at 3 sites; 2: digits, dirichlet"):
        view_of(collect(runs))
    rows = json.loads(run_command("show", "hospitals", "mixed", "--json", cwd=folder, check=True).stdout)
    assert [row["vacant_per_client"] is None for row in rows].count(False) == 1
