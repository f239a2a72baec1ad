"""What the page and the figures are drawn from is what the runs measured."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support import write_run

import fedvls
from fedvls.errors import RunError
from fedvls.report.bundle import CLASSWISE_KEPT, collect, collect_some
from fedvls.report.labels import distinct, method_label
from fedvls.runs.store import RunDirectory, find_runs


def test_a_real_run_is_in_the_bundle_as_it_was_measured(tmp_path, stripes):
    federation = fedvls.Federation(stripes, clients=3, partition=fedvls.dirichlet(beta=0.3), seed=1)
    result = federation.run("fedvls", rounds=2, epochs=1, out=tmp_path / "r", confusion=[0], local_every=1)
    bundle = collect(find_runs([tmp_path / "r"]))
    (run,) = bundle["runs"]
    assert bundle["methods"] == ["FedVLS"]
    assert run["curves"]["accuracy"] == pytest.approx(result.curve, rel=1e-5)
    assert run["best"] == pytest.approx(result.best, rel=1e-5)
    assert run["per_class"] == pytest.approx(result.per_class, rel=1e-5)
    assert [one["round"] for one in run["local"]] == [1, 2]
    assert run["confusion"]["0"]["matrix"] == result.confusion(0).tolist()
    (held,) = bundle["partitions"]
    assert held["counts"] == federation.split.counts.tolist()
    assert held["class_names"] == list(stripes.class_names)
    assert len(run["seconds"]) == 2


def test_seeds_of_a_method_are_one_group_and_other_choices_are_other_settings(tmp_path):
    for seed in (0, 1):
        write_run(tmp_path / f"a{seed}", "fedavg", seed)
    write_run(tmp_path / "b", "fedvls")
    write_run(tmp_path / "c", "fedavg", lr=0.5)
    write_run(tmp_path / "d", "fedavg", seed=2, threads=2, local_every=3)  # neither changes what is compared
    bundle = collect(find_runs([tmp_path]))
    assert bundle["groups"] == [{"method": 0, "setting": 0}, {"method": 1, "setting": 0}, {"method": 0, "setting": 1}]
    assert [run["group"] for run in bundle["runs"]] == [0, 0, 1, 2, 0]
    assert [text.rsplit(", ", 1)[1] for text in bundle["settings"]] == ["lr=0.01", "lr=0.5"]


def test_class_means_are_over_the_clients_to_which_the_class_is_that(tmp_path):
    """In a made-up run client k lacks class k and training halves its accuracy there; others keep it."""
    run = collect([write_run(tmp_path / "r", rounds=2)])["runs"][0]
    classes = run["local"][-1]["classes"]
    accuracy = run["curves"]["accuracy"][-1]
    assert classes["vacant"] == pytest.approx([accuracy / 2] * 3, rel=1e-5)
    # counts are 5, 14, 23 without the vacant one; the means of the three rows are 12.3, 9.3 and 6.3
    assert classes["minority"] == pytest.approx([accuracy, None, None])
    assert classes["majority"] == pytest.approx([None, accuracy, accuracy])


def test_a_long_run_keeps_eight_class_tables_with_the_last_among_them(tmp_path):
    run = collect([write_run(tmp_path / "r", rounds=100)])["runs"][0]
    kept = [one["round"] for one in run["local"] if "classes" in one]
    assert len(run["local"]) == 50
    assert len(kept) == CLASSWISE_KEPT
    assert kept[0] == 2
    assert kept[-1] == 100


def test_an_unfinished_run_is_shown_as_far_as_it_is(tmp_path):
    write_run(tmp_path / "r", rounds=4, complete=False)
    with (tmp_path / "r" / "metrics.jsonl").open("a") as file:
        file.write('{"round": 4, "accur')  # torn
    run = collect(find_runs([tmp_path / "r"]))["runs"][0]
    assert (run["rounds"], run["planned"], run["complete"]) == (3, 4, False)


def test_runs_without_a_round_are_named_and_alone_an_error(tmp_path):
    write_run(tmp_path / "full")
    RunDirectory.prepare(tmp_path / "empty", fedvls.RunConfig())
    assert collect(find_runs([tmp_path]))["empty"] == ["empty"]
    with pytest.raises(RunError, match=r"no finished round in .*empty"):
        collect_some([RunDirectory(tmp_path / "empty")])


def test_numbers_that_are_not_finite_become_null(tmp_path):
    run = write_run(tmp_path / "r", rounds=2)
    lines = [{**record, "loss": float("nan")} for record in run.records()]
    (tmp_path / "r" / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert collect([run])["runs"][0]["curves"]["loss"] == [None, None]


def test_labels_name_what_is_not_the_default_and_are_never_shared():
    assert method_label({"name": "fedvls", "lam": 0.1}) == "FedVLS"
    assert method_label({"name": "fedvls", "lam": 0.5}) == "FedVLS (lam=0.5)"
    assert method_label({"name": "own/method (2)"}) == "own/method (2)"
    twins = [{"name": "mine", "a": {"b": 1}}, {"name": "mine", "a": {"b": 2}}, {"name": "other"}]
    assert distinct(["mine", "mine", "other"], twins) == ["mine, a.b=1", "mine, a.b=2", "other"]


def test_six_digits_are_kept(tmp_path):
    run = write_run(tmp_path / "r")
    exact = [record["accuracy"] for record in run.records()]
    assert np.allclose(collect([run])["runs"][0]["curves"]["accuracy"], exact, rtol=5e-6, atol=0)
