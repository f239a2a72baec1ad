"""The commands as a user types them, in their own processes."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time

import pytest
import yaml
from support import ROOT, command_environment, run_command, start_command

from fedvls.cli import COMMANDS

SHORT = ["--dataset", "digits", "--beta", "0.1", "--rounds", "2", "--epochs", "1", "--device", "cpu"]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A folder with a finished comparison."""
    folder = tmp_path_factory.mktemp("compared")
    done = run_command(
        "compare", "--methods", "fedavg,fedvls:lam=0.5", "--seeds", "0,1", *SHORT, cwd=folder, check=True
    )
    return folder, done


def test_run_writes_everything_and_prints_json(tmp_path):
    done = run_command(
        "run", "--method", "fedntd", *SHORT, "--confusion", 3, "--out", "r", "--json", cwd=tmp_path, check=True
    )
    result = json.loads(done.stdout)
    assert done.stderr == ""  # quiet when not a terminal
    assert result["rounds"] == 2
    assert len(result["curve"]) == 2
    assert {p.name for p in (tmp_path / "r").iterdir()} == {
        *(
            "config.yaml",
            "header.json",
            "metrics.jsonl",
            "timing.jsonl",
            "checkpoint",
            "result.json",
            ".lock",
            "report.html",
        )
    }
    header = json.loads((tmp_path / "r" / "header.json").read_text())
    for key in ("data", "partition", "model", "method", "engine", "dtype", "batch_norm", "aggregation_weights"):
        assert key in header
    for key in ("optimizer", "augmentation", "seed", "versions", "device"):
        assert key in header
    assert len(header["partition"]["fingerprint"]) == 16
    assert header["partition"]["vacant_per_client"] > 0
    confusion = run_command("show", "r", "--confusion", 3, "--json", cwd=tmp_path, check=True)
    assert sum(map(sum, json.loads(confusion.stdout)["confusion"])) == header["data"]["test_samples"]


def test_config_file_of_a_run_runs_again_to_the_same_bits(tmp_path):
    run_command("run", "--method", "fedsam", *SHORT, "--set", "method.rho=0.2", "--out", "a", cwd=tmp_path, check=True)
    run_command("run", "a/config.yaml", "--out", "b", cwd=tmp_path, check=True)
    assert yaml.safe_load((tmp_path / "b/config.yaml").read_text())["method"] == {"name": "fedsam", "rho": 0.2}
    for name in ("metrics.jsonl", "checkpoint/round-000002.safetensors", "config.yaml"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_options_change_a_config_and_another_method_drops_its_values(tmp_path):
    (tmp_path / "c.yaml").write_text("method: {name: fedvls, lam: 0.7}\nrounds: 9\nepochs: 1\ndevice: cpu\n")
    run_command("run", "c.yaml", "--method", "fedlc", "--rounds", 1, "--out", "r", cwd=tmp_path, check=True)
    config = yaml.safe_load((tmp_path / "r/config.yaml").read_text())
    assert config["method"] == {"name": "fedlc", "tau": 0.5, "true_class": "kept"}
    assert config["rounds"] == 1


def test_a_composed_method_can_be_named_by_settings(tmp_path):
    settings = ["--set", "method.step.name=sam", "--set", "method.step.rho=0.05", "--set", "method.server=extrapolated"]
    run_command("run", "--method", "fedvls", *SHORT, *settings, "--out", "r", cwd=tmp_path, check=True)
    method = json.loads((tmp_path / "r/header.json").read_text())["method"]
    assert method["step"]["rho"] == 0.05
    assert method["server"]["eps"] == 0.01


def test_compare_makes_a_table_and_does_not_run_complete_runs_again(compared):
    folder, first = compared
    assert "fedvls(lam=0.5)" in first.stdout
    assert "±" in first.stdout
    stamps = {p: p.stat().st_mtime_ns for p in folder.rglob("timing.jsonl")}
    sizes = {p: p.read_bytes() for p in stamps}
    again = run_command(
        "compare", "--methods", "fedavg,fedvls:lam=0.5", "--seeds", "0,1", *SHORT, cwd=folder, check=True
    )
    assert again.stdout == first.stdout
    assert {p: p.read_bytes() for p in stamps} == sizes
    assert len(stamps) == 4


@pytest.mark.parametrize("form", ["markdown", "latex", "json"])
def test_show_has_best_last_and_mean_of_last_five_in_every_format(compared, form):
    folder, _ = compared
    text = run_command("show", "runs/compare", "--format", form, cwd=folder, check=True).stdout
    if form == "json":
        rows = json.loads(text)
        assert [row["seeds"] for row in rows] == [[0, 1], [0, 1]]
        assert all(row["best"]["mean"] >= row["last"]["mean"] for row in rows)
        values = rows[0]["best"]["values"]
        assert rows[0]["best"]["std"] == pytest.approx(abs(values[0] - values[1]) / 2)  # population deviation of two
    else:
        assert "mean of last 5" in text
        assert text.count("\n") == (4 if form == "markdown" else 8)


def test_show_takes_several_run_directories(compared):
    folder, _ = compared
    text = run_command(
        "show", "runs/compare/fedavg-s0", "runs/compare/fedavg-s1", "--json", cwd=folder, check=True
    ).stdout
    assert [row["method"] for row in json.loads(text)] == ["fedavg"]


def test_partition_shows_counts_vacancy_and_draws_a_heat_map(tmp_path):
    arguments = ["partition", "--dataset", "digits", "--beta", "0.05", "--seed", "1", "--plot", "p.png"]
    shown = run_command(*arguments, cwd=tmp_path, check=True)
    assert "fingerprint" in shown.stdout
    assert "·" in shown.stdout
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    told = json.loads(run_command(*arguments[:-2], "--json", cwd=tmp_path, check=True).stdout)
    assert told["fingerprint"] in shown.stdout
    assert sum(told["sizes"]) == sum(map(sum, told["counts"]))


def test_partition_lists_the_first_of_many_clients_and_all_on_request(tmp_path):
    """The digits have 1,437 training samples: 60 clients can have 10 each with a mild skew."""
    arguments = ["partition", "--dataset", "digits", "--beta", "5", "--clients", "60"]
    short, whole = (run_command(*arguments, *more, cwd=tmp_path, check=True).stdout for more in ([], ["--all"]))
    rows = [re.findall(r"^ +(\d+) ", text, re.MULTILINE) for text in (short, whole)]
    assert rows == [[str(client) for client in range(clients)] for clients in (10, 60)]
    assert "the first 10 of 60 clients; --all and --json show every one\n" in short
    assert "the first" not in whole
    assert short.splitlines()[-1] == whole.splitlines()[-1]  # the summary is of all of them
    told = json.loads(run_command(*arguments, "--json", cwd=tmp_path, check=True).stdout)
    assert len(told["counts"]) == 60


@pytest.mark.parametrize(
    ("kind", "some"),
    [
        ("methods", "fedvls+fedexp"),
        ("datasets", "fashion-mnist"),
        ("models", "mlp"),
        ("partitions", "shards-imbalanced"),
    ],
)
def test_ls_lists_names_values_and_what_they_are(tmp_path, kind, some):
    assert some in run_command("ls", kind, cwd=tmp_path, check=True).stdout
    rows = json.loads(run_command("ls", kind, "--json", cwd=tmp_path, check=True).stdout)
    assert all(row["summary"] for row in rows)
    assert some in [row["name"] for row in rows]


@pytest.mark.parametrize("command", COMMANDS.split())
def test_every_command_explains_itself_with_an_example(tmp_path, command):
    assert f"Example: fedvls {command}" in run_command(command, "--help", cwd=tmp_path, check=True).stdout


def test_a_run_on_the_digits_loads_no_library_that_it_can_do_without(tmp_path):
    heavy = "sklearn", "scipy", "pandas", "matplotlib", "PIL"
    code = (
        "import sys, fedvls\n"
        f"fedvls.Federation('digits').run('fedvls', rounds=1, epochs=1, out={str(tmp_path / 'r')!r})\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=command_environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_help_loads_no_torch():
    code = "import sys, fedvls.cli; print([m for m in ('torch', 'sklearn', 'matplotlib', 'numpy') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], env=command_environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_or_a_schedulers_request_ends_cleanly_and_says_how_to_resume(tmp_path, how):
    arguments = ["run", "--dataset", "digits", "--rounds", 500, "--epochs", 2, "--device", "cpu", "--out", "r"]
    process = start_command(*arguments, cwd=tmp_path, stderr=subprocess.PIPE)
    log, deadline = tmp_path / "r" / "metrics.jsonl", time.monotonic() + 60
    # The fourth line of the log says that the third round is over: its checkpoint is written after its line.
    while not (log.exists() and log.read_bytes().count(b"\n") >= 4) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(how)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    found = re.fullmatch(r"stopped after round (\d+) of 500; resume with: fedvls resume r\n", errors)
    assert found, errors
    assert int(found[1]) >= 3
    assert (tmp_path / "r" / "checkpoint" / f"round-{int(found[1]):06d}.json").exists()


def test_own_methods_are_imported_from_a_file_and_resumed(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import fedvls\n\n@fedvls.register('twice')\ndef twice(weight: float = 2.0) -> fedvls.Method:\n"
        "    '''Twice the cross-entropy.'''\n    return fedvls.Method(weight * fedvls.losses.cross_entropy())\n"
    )
    run_command("run", "--method", "twice", "--import", "mine.py", *SHORT, "--out", "r", cwd=tmp_path, check=True)
    (tmp_path / "r" / "result.json").unlink()
    run_command("resume", "r", cwd=tmp_path, check=True)
    assert (tmp_path / "r" / "result.json").exists()


def test_a_terminal_sees_a_bar_with_round_rate_and_time_left(tmp_path):
    """In a pseudo-terminal, where progress is drawn."""
    lead, follow = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "fedvls", "run", *SHORT, "--out", "r"],
        cwd=tmp_path,
        env={**command_environment(), "TERM": "xterm", "COLUMNS": "140"},
        stdout=follow,
        stderr=follow,
    )
    os.close(follow)
    seen = b""
    while True:
        try:
            chunk = os.read(lead, 4096)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        seen += chunk
    os.close(lead)
    assert process.wait(timeout=60) == 0
    text = seen.decode()
    assert "round 2/2" in text
    assert "samples/s" in text
    assert "left" in text


def test_the_demo_measures_four_methods_and_draws_the_figure(tmp_path):
    told = json.loads(run_command("demo", "--out", "d", "--json", cwd=tmp_path, check=True).stdout)
    assert [row["method"] for row in told["methods"]] == ["fedavg", "fedlc", "fedntd", "fedvls"]
    by_name = {row["method"]: row for row in told["methods"]}
    assert len({json.dumps(row["before"]) for row in told["methods"]}) == 1  # all from the same global model
    assert by_name["fedvls"]["after"]["vacant"] > by_name["fedavg"]["after"]["vacant"] + 0.2
    assert (tmp_path / told["figure"]).read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / told["report"]).read_text(encoding="utf-8").startswith("<!doctype html>")


def test_the_package_is_typed_and_licensed():
    assert (ROOT / "src/fedvls/py.typed").exists()
    assert "Apache License" in (ROOT / "LICENSE").read_text()
