"""`fedvls reproduce` and `fedvls sweep` as a user types them."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import pytest
from support import run_command, write_run
from tiny_files import write_mnist

from fedvls.cli import main

SMALL = ["--dataset", "digits", "--rounds", "2", "--epochs", "1", "--device", "cpu"]


def test_reproduce_lists_every_study(tmp_path):
    told = run_command("reproduce", cwd=tmp_path, check=True).stdout
    listed = json.loads(run_command("reproduce", "--json", cwd=tmp_path, check=True).stdout)
    assert len(listed) == 30
    assert all(study["name"] in told and study["title"] in told for study in listed)


def test_reproduce_runs_just_the_cells_asked_for_and_says_that_they_are_scaled_down(tmp_path):
    (tmp_path / "data").mkdir()
    write_mnist(tmp_path / "data", train=300)
    asked = "reproduce dirichlet --dataset mnist --beta 0.5 --methods fedavg,fedvls --seeds 0 --rounds 2 --fraction 0.8"
    command = [*asked.split(), "--data-dir", "data", "--device", "cpu"]
    done = run_command(*command, cwd=tmp_path, check=True)
    assert "Scaled down: 2 of 50 rounds, 80 % of the data." in " ".join(done.stdout.split())
    assert "98.96 ± 0.00" in done.stdout  # FedAvg, published
    assert "FedVLS is first: " in done.stdout
    assert len(list((tmp_path / "runs/studies/runs").iterdir())) == 2
    again = run_command(*command, "--from-disk", "--score", "last", "--format", "csv", cwd=tmp_path, check=True)
    lines = list(csv.DictReader(again.stdout.splitlines()))
    assert [(line["method"], line["score"], line["rounds"]) for line in lines] == [
        ("fedavg", "last", "2"),
        ("fedvls", "last", "2"),
    ]
    assert all(float(line["measured_mean"]) >= 0 for line in lines)
    assert {p.name for p in (tmp_path / "runs/studies/dirichlet-2-rounds-80-percent-scaled-down").iterdir()} == {
        *("table.md", "table.tex", "table.csv", "table.json")
    }


def call(folder, *arguments):
    """`fedvls ...` in this process: exit code, standard output and standard error."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["fedvls", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
    return end.value.code, out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def archived(tmp_path_factory):
    """A folder with an archive of four rounds of two methods, the command that made them, and what it wrote."""
    folder = tmp_path_factory.mktemp("archived")
    (folder / "data").mkdir()
    write_mnist(folder / "data", train=200)
    scale = ["--rounds", "4", "--set", "epochs=1"]
    run = ["reproduce", "dirichlet", "--dataset", "mnist", "--beta", "0.5", "--methods", "fedavg,fedvls", *scale]
    place = ["--data-dir", "data", "--device", "cpu", "--engine", "sequential", "--workers", "1"]
    code, _, errors = call(folder, *run, "--seeds", "0", *place)
    assert code == 0, errors
    table = (folder / "runs/studies/dirichlet-4-rounds-scaled-down/table.json").read_bytes()
    _, told, _ = call(folder, "archive", "pack", "runs/studies/runs", "-o", "results")
    assert len(told.splitlines()) == 2
    assert all(line.startswith("written: results/fed") and line.endswith("(4 rounds)") for line in told.splitlines())
    shutil.rmtree(folder / "runs")
    shutil.rmtree(folder / "data")
    return folder, [*run, "--seeds", "0"], scale, table


def test_a_study_is_rebuilt_from_its_archive_alone_and_its_runs_can_be_shown(archived):
    folder, run, _, table = archived
    code, _, errors = call(folder, *run, "--from-archive", "results")
    assert code == 0
    assert "2 runs: 2 in results" in errors
    assert (folder / "runs/studies/dirichlet-4-rounds-scaled-down/table.json").read_bytes() == table
    _, shown, _ = call(folder, "show", "runs/studies/runs", "--json")
    assert [(row["method"], row["rounds"], row["complete"]) for row in json.loads(shown)] == [
        ("fedavg", 4, True),
        ("fedvls", 4, True),
    ]
    assert call(folder, "report", "runs/studies/runs")[0] == 0
    assert call(folder, "plot", "curves", "runs/studies/runs", "-o", "curves.png")[0] == 0


def test_what_archived_runs_took_is_told_cell_by_cell(archived):
    folder, run, *_ = archived
    _, told, _ = call(folder, *run, "--from-archive", "results", "--cost", "--json")
    cells = json.loads(told)["cells"]
    assert [cell["row"] for cell in cells] == ["fedavg", "fedvls"]
    assert all(device.startswith("cpu: ") and spent > 0 for c in cells for device, spent in c["minutes"].items())
    code, told, _ = call(folder, *run, "--cost")  # nothing is run
    assert code == 0
    assert "2 runs" in told


def test_every_study_of_an_archive_is_rebuilt_with_one_line_each(archived):
    folder, _, scale, _ = archived
    code, told, _ = call(folder, "reproduce", "--from-archive", "results", *scale, "--out", "all")
    assert code == 0
    assert told.splitlines() == [  # the study of variants has these two runs too
        f"{name}: 2 runs -> all/{name}-4-rounds-scaled-down: table.md, table.tex, table.csv, table.json"
        for name in ("dirichlet", "variants")
    ]


def test_rebuilding_everything_says_how_many_runs_are_in_no_table(archived):
    folder, _, scale, _ = archived
    _, told, rest = call(folder, "reproduce", "--from-archive", "results", "--out", "none")
    assert told == ""
    assert rest.startswith("in none of these tables: 2 of the runs in results")
    *_, rest = call(folder, "reproduce", "--from-archive", "results", *scale, "--out", "all")
    assert rest == ""


def test_unpacking_twice_keeps_what_is_there(archived):
    folder, *_ = archived
    first, second = (call(folder, "archive", "unpack", "results", "-o", "back")[1].splitlines() for _ in range(2))
    assert [line.split(": ")[0] for line in first] == ["written", "written"]
    assert [line.split(": ")[0] for line in second] == ["kept", "kept"]


def test_packing_leaves_out_what_has_no_round_and_refuses_another_run(tmp_path):
    (write_run(tmp_path / "runs" / "begun").path / "metrics.jsonl").unlink()
    write_run(tmp_path / "runs" / "one")
    code, told, errors = call(tmp_path, "archive", "pack", "runs", "-o", "results")
    assert code == 0
    assert told == "written: results/one.json.gz (4 rounds)\n"
    assert errors == "left out: runs/begun has no finished round\n"
    write_run(tmp_path / "other" / "one", seed=1)
    code, _, errors = call(tmp_path, "archive", "pack", "other/one", "-o", "results")
    assert code == 2
    (line,) = errors.splitlines()
    assert line.startswith("error: results/one.json.gz holds another run than other/one: seed (0 there, 1 here)")


def test_missing_data_fail_their_cells_with_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDVLS_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "data" / "cifar-10-batches-bin").mkdir(parents=True)
    for name in (*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin"):
        (tmp_path / "data" / "cifar-10-batches-bin" / name).write_bytes(b"torn")
    asked = ["--dataset", "cifar10", "--methods", "fedavg", "--seeds", "0", "--data-dir", "data"]
    done = run_command("reproduce", "drift", *asked, cwd=tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "failed: " in done.stderr
    assert "data_batch_1.bin" in done.stderr


def test_sweep_runs_every_combination_for_each_seed(tmp_path):
    command = ["sweep", "--method", "fedvls", "--over", "method.lam=0.1,1e-1e9", *SMALL]
    assert run_command(*command, cwd=tmp_path).returncode == 2  # not a number
    command = ["sweep", "--method", "fedvls", "--over", "method.lam=0.1,5", "--over", "lr=0.01,0.1", "--seeds", "0,1"]
    done = run_command(*command, *SMALL, "--json", cwd=tmp_path, check=True)
    rows = json.loads(done.stdout)
    assert [row["values"] for row in rows] == [{"method.lam": lam, "lr": lr} for lam in (0.1, 5) for lr in (0.01, 0.1)]
    assert all(row["seeds"] == [0, 1] for row in rows)
    headers = [json.loads((tmp_path / run / "header.json").read_text()) for row in rows for run in row["runs"]]
    told = [(h["method"]["lam"], h["optimizer"]["lr"], h["seed"]) for h in headers]
    assert told == [(lam, lr, seed) for lam in (0.1, 5) for lr in (0.01, 0.1) for seed in (0, 1)]
    # Two short rounds may predict alike; the losses of eight different runs are all different.
    logs = [(tmp_path / run / "metrics.jsonl").read_text().splitlines()[-1] for row in rows for run in row["runs"]]
    assert len({json.loads(log)["train_loss"] for log in logs}) == 8
    again = run_command(*command, *SMALL, "--format", "markdown", cwd=tmp_path, check=True)
    assert "8 finished, 0 to do" in again.stderr
    assert "| method.lam | lr | rounds | seeds | best | last | mean of last 5 |" in again.stdout


def test_a_sweep_begins_with_a_config_file(tmp_path):
    (tmp_path / "c.yaml").write_text("method: fedprox\ndata: digits\nrounds: 1\nepochs: 1\ndevice: cpu\n")
    command = ["sweep", "c.yaml", "--over", "method.name=fedavg,fedprox", "--set", "clients=4", "--json"]
    rows = json.loads(run_command(*command, cwd=tmp_path, check=True).stdout)
    headers = [json.loads((tmp_path / row["runs"][0] / "header.json").read_text()) for row in rows]
    assert [(h["method"]["name"], h["partition"]["clients"]) for h in headers] == [("fedavg", 4), ("fedprox", 4)]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("reproduce dirichlett", "unknown study 'dirichlett'; did you mean 'dirichlet'?"),
        ("reproduce dirichlet --methods fedvsl", "has no method 'fedvsl'; it has fedavg"),
        ("reproduce dirichlet --beta 0.2", "has no beta '0.2'; it has 0.5, 0.1, 0.05"),
        ("reproduce dirichlet --only model", "--only 'model' must look like axis=value"),
        ("reproduce dirichlet --score worst", "--score 'worst' is not one of best, last, mean_last_five"),
        ("reproduce dirichlet --fraction 2", "--fraction 2.0 must be above 0 and at most 1"),
        ("reproduce dirichlet --rounds 0", "rounds = 0 must be >= 1"),
        ("reproduce dirichlet --format html", "--format 'html' is not one of table, markdown"),
        ("reproduce dirichlet --seeds a", "--seeds: 'a' is not a whole number"),
        ("reproduce drift --set methd=1", "unknown key in study: 'methd'; did you mean 'method'?"),
        ("reproduce drift --ray-address here:1", "--ray-address needs --on ray"),
        ("reproduce drift --unfinished", "--unfinished needs --from-disk or --from-archive"),
        ("reproduce --cost", "--cost needs a study: fedvls reproduce NAME --cost"),
        ("reproduce partitions --cost", "study 'partitions' trains nothing"),
        ("reproduce drift --from-disk --from-archive x", "--from-disk and --from-archive: give one of them"),
        ("reproduce drift --from-archive x", "there is no archive at x"),
        ("reproduce --from-archive x", "there is no archive at x"),
        ("reproduce --from-archive .", ". holds no archived run (*.json.gz)"),
        ("reproduce --from-archive x --dataset mnist", "choosing cells or seeds needs a study"),
        ("archive pack x -o y", "no run at x: the folder does not exist"),
        ("archive unpack x -o y", "there is no archive at x"),
        ("sweep --over method.lam", "--over 'method.lam' must look like key=value,value"),
        ("sweep --over lr=0.1 --over lr=0.2", "--over names lr twice"),
        ("sweep --over seed=0,1", "give seeds with --seeds"),
        ("sweep --over lr=0.1,0.10", "two combinations are the same run"),
        ("sweep --over rond=1", "unknown key in sweep: 'rond'; did you mean 'rounds'?"),
        ("sweep --over method.lamda=1", "'lamda'; did you mean 'lam'?"),
        ("sweep --over lr=0.1 --workers 0", "--workers 0 must be >= 1"),
    ],
)
def test_mistakes_are_one_line(tmp_path, monkeypatch, capsys, command, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["fedvls", *command.split()])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert words in line
    assert not (tmp_path / "runs").exists()
