"""`fedvls bench` as a user runs it, scaled down."""

from __future__ import annotations

import json

import pytest
from support import run_command

from fedvls.bench.plan import Plan
from fedvls.bench.run import _meters, run_plan
from fedvls.engines import ENGINES


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    options = ("--dataset", "generated", "--device", "cpu", "--samples", "2000", "--rounds", "1")
    ended = run_command("bench", *options, "--floor-seconds", "0.05", "--json", "out.json", cwd=folder, check=True)
    return ended, json.loads((folder / "out.json").read_text())


def test_every_engine_and_the_loop_are_measured_or_say_why_not(done):
    rows = done[1]["rows"]
    for method in ("fedavg", "fedvls"):
        mine = [row for row in rows if row["method"] == method]
        assert {row["program"] for row in mine} == {"DataLoader loop", *ENGINES}
        assert all((row["rate"] is None) == bool(row["reason"]) for row in mine)
        measured = [row for row in mine if row["rate"]]
        assert {"DataLoader loop", "sequential"} <= {row["program"] for row in measured}
        for row in measured:
            assert row["measurements"][0]["samples"] == 2000 * 5
            assert row["share_of_floor"] > 0
            assert row["over_loop"] == pytest.approx(row["rate"] / measured[0]["rate"])


def test_programs_that_do_the_same_work_learn_the_same(done):
    """Same start, partition and steps; only the order of minibatches differs: accuracies agree within noise."""
    for method in ("fedavg", "fedvls"):
        found = [row["accuracy"] for row in done[1]["rows"] if row["method"] == method and row["rate"]]
        assert max(found) - min(found) < 0.1


def test_the_table_and_the_progress_are_where_they_belong(done):
    out, told = done[0].stdout, done[0].stderr
    assert "generated data of the real shape" in out
    assert "targets" in out
    assert "row 1: mnist-mlp: DataLoader loop fedavg" in told
    assert "row 1" not in out


def test_short_numbers_have_a_floor_of_their_own():
    choices = {"methods": ("fedavg",), "engines": ("stacked",), "loop": False, "dataset": "generated"}
    plan = Plan(samples=300, rounds=1, dtypes=("float32", "bf16"), floor_seconds=0.05, **choices)
    with _meters(plan, plan.chosen()[0][0]) as meters:
        kinds = {key: meter.floor.dtype for key, meter in meters.items()}
    assert kinds == {("fedavg", "float32"): "float32", ("fedavg", "bf16"): "bfloat16"}
    settings = [row.measurements[0].setting for row in run_plan(plan).rows]
    assert settings == ["engine stacked, float32", "engine stacked, bf16"]


def test_repetitions_are_taken_in_turn():
    order = []

    class Told:
        def __getattr__(self, name):
            return lambda *told: order.append(told[0].program) if name == "on_row" else None

    choices = {"methods": ("fedavg",), "engines": ("sequential",), "dataset": "generated", "floor_seconds": 0}
    report = run_plan(Plan(samples=300, rounds=1, repeat=2, **choices), Told())
    assert order == ["DataLoader loop", "sequential"] * 2
    assert [len(row.measurements) for row in report.rows] == [2, 2]
    assert all(row.middle("floor") is None for row in report.rows)


def test_an_engine_that_does_not_support_the_work_is_a_row_with_the_reason(monkeypatch):
    """A dtype no engine has stands for whatever an engine refuses."""
    plan = Plan(methods=("fedavg",), engines=("sequential",), loop=False, samples=300, rounds=1, dataset="generated")
    object.__setattr__(plan, "dtypes", ("float8",))
    (row,) = run_plan(plan).rows
    assert row.rate is None
    assert "float8" in row.reason


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--workload", "mnist-mpl"), "error: unknown workload 'mnist-mpl'; did you mean 'mnist-mlp'?"),
        (("--rivals", "flower"), "error: unknown rival 'flower'; did you mean 'flwr'?"),
        (("--engines", "paralel"), "error: unknown engine 'paralel'; did you mean 'parallel'?"),
        (("--methods", "fedprox"), "error: unknown method 'fedprox'; known: fedavg, fedvls"),
        (("--dtype", "float33"), "error: unknown dtype 'float33'; did you mean 'float32'?"),
        (("--rounds", "0"), "error: --rounds 0 must be >= 1"),
        (("--samples", "7"), "error: --samples 7: mnist-mlp needs 200 to 60000"),
        (("--workload", "cifar10-mobilenetv2"), "error: workload 'cifar10-mobilenetv2' is meant for cuda, not cpu"),
        (("--json", "nowhere/out.json"), "error: --json nowhere/out.json: the folder"),
        (("--data-dir", "empty"), "error: mnist is not on this machine"),
    ],
)
def test_a_mistake_is_one_line(options, line, tmp_path, monkeypatch, capsys):
    from fedvls.cli import main
    from fedvls.data import mnist

    def unreachable(files, urls, into, name):
        from fedvls.errors import DataError

        raise DataError(f"{name} is not on this machine and could not be downloaded")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(mnist, "fetch", unreachable)
    monkeypatch.setattr("sys.argv", ["fedvls", "bench", "--device", "cpu", *options])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2
    assert told[-1].startswith(line)
    assert len([text for text in told if text.startswith("error")]) == 1
