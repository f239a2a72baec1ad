"""What bad input gets: one line that names the value, exit code 2, no traceback, nothing lost."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from support import run_command

from fedvls.cli import main


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files that are wrong in one way each."""
    folder = tmp_path_factory.mktemp("files")
    x, y = np.random.RandomState(0).normal(size=(40, 3)), np.arange(40) % 4
    good = {"x_train": x, "y_train": y, "x_test": x, "y_test": y}
    np.savez(folder / "good.npz", **good)
    np.savez(folder / "no-test.npz", x_train=x, y_train=y)
    np.savez(folder / "nan.npz", **{**good, "x_train": np.where(x == x[7, 1], np.nan, x)})
    np.savez(folder / "negative.npz", **{**good, "y_train": y - 1})
    (folder / "torn.npz").write_bytes((folder / "good.npz").read_bytes()[:200])
    (folder / "a-file").write_text("")
    (folder / "bad.yaml").write_text("rounds: 3\nepoch: 2\n")
    (folder / "list.yaml").write_text("- 1\n")
    (folder / "syntax.yaml").write_text("a: [1\n")
    (folder / "raises.py").write_text("1 / 0\n")
    (folder / "full").mkdir()
    (folder / "full" / "thesis.txt").write_text("mine")
    return folder


CASES = {
    "unknown method": ("run --method fedvsl", "unknown method 'fedvsl'; did you mean 'fedvls'?"),
    "unknown data set": ("run --dataset digit", "unknown data set 'digit'; did you mean 'digits'?"),
    "unknown partition": ("run --partition dirichlett", "unknown partition 'dirichlett'; did you mean 'dirichlet'?"),
    "unknown model": ("run --model mpl", "unknown model 'mpl'; did you mean 'mlp'?"),
    "unknown engine": ("run --engine sequental", "unknown engine 'sequental'; did you mean 'sequential'?"),
    "unknown config key": ("run bad.yaml", "unknown key in config: 'epoch'; did you mean 'epochs'?"),
    "unknown key in --set": ("run --set methd.lam=1", "unknown key in config: 'methd'; did you mean 'method'?"),
    "unknown value of a method": (
        "run --set method.lamda=1",
        "unknown value for method 'fedvls': 'lamda'; did you mean 'lam'?",
    ),
    "unknown key in data": ("run --set data.nme=1", "unknown key in data: 'nme'; did you mean 'name'?"),
    "domains of a set that has none": ("run --dataset digits --domains mnist", "domains"),
    "unknown domain": ("run --dataset digits-domains --domains mnist,upss", "'usps'"),
    "set without a value": ("run --set lr", "--set 'lr' must look like key=value"),
    "text for a number": ("run --set lr=fast", "lr = 'fast' must be a number"),
    "wrong choice": (
        "run --set method.suppression=strong",
        "suppression = 'strong' is not one of 'released', 'printed', 'none'",
    ),
    "beta 0": ("run --beta 0", "beta = 0.0"),
    "negative lam": ("run --set method.lam=-1", "lam = -1.0 must be >= 0"),
    "no rounds": ("run --rounds 0", "rounds = 0 must be >= 1"),
    "too much participation": ("run --participation 1.5", "participation = 1.5 must be in (0, 1]"),
    "no participation": ("run --participation 0", "participation = 0.0 must be in (0, 1]"),
    "more clients than samples": ("run --dataset good.npz --clients 41", "41 clients but only 40 training samples"),
    "impossible partition": ("run --dataset good.npz --clients 5", "clients"),
    "confusion of nobody": ("run --confusion 10", "there is no client 10; clients are 0..9"),
    "npz without keys": ("run --dataset no-test.npz", "x_test"),
    "npz with NaN": ("run --dataset nan.npz", "x_train"),
    "labels out of range": ("run --dataset negative.npz", "y_train"),
    "torn npz": ("run --dataset torn.npz", "torn.npz"),
    "npz that is not there": ("run --dataset nowhere.npz", "nowhere.npz"),
    "data directory is a file": ("run --dataset mnist --data-dir a-file", "a-file is a file"),
    "run directory is a file": ("run --out a-file", "run directory a-file is a file"),
    "run directory with other things": ("run --out full", "full is not empty and holds no run"),
    "config that is a list": ("run list.yaml", "must be a mapping"),
    "config that is not YAML": ("run syntax.yaml", "cannot read config syntax.yaml"),
    "config that is not there": ("run nothing.yaml", "cannot read config nothing.yaml"),
    "import that fails": ("run --import raises.py", "raises.py failed: ZeroDivisionError"),
    "import that is not there": ("run --import none.py", "none.py: it is not a Python file"),
    "no cuda here": ("run --device tpu", "device = 'tpu'"),
    "start weights that are not there": ("run --start w.safetensors", "cannot read start weights w.safetensors"),
    "resume of nothing": ("resume nowhere", "no run at nowhere"),
    "resume of another folder": ("resume full", "it has no config.yaml"),
    "show of nothing": ("show nowhere", "no run at nowhere"),
    "unknown format": ("show full --format html", "--format 'html' is not one of"),
    "compare with a typo": ("compare --methods fedavg,fedlcc", "unknown method 'fedlcc'; did you mean 'fedlc'?"),
    "compare with a bad seed": ("compare --methods fedavg --seeds 0,x", "'x' is not a whole number"),
    "compare with a bad value": ("compare --methods fedvls:lam", "must look like key=value"),
    "partition value": ("partition --set betta=1", "'betta'"),
    "partition figure ending": ("partition --plot p.docx", "p.docx"),
}


@pytest.mark.parametrize(("arguments", "line"), CASES.values(), ids=CASES)
def test_is_one_line_with_exit_code_2(files, arguments, line, monkeypatch, capsys):
    before = {p: p.read_bytes() for p in files.rglob("*") if p.is_file()}
    monkeypatch.chdir(files)
    monkeypatch.setattr(sys, "argv", ["fedvls", *arguments.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr()
    assert ended.value.code == 2
    assert line in told.err
    assert told.err.startswith("error: ")
    assert told.err.count("\n") == 1
    assert told.out == ""
    assert {p: p.read_bytes() for p in before} == before


def test_a_mistake_leaves_no_traceback_in_a_real_process(files):
    done = run_command("run", "--method", "fedvsl", cwd=files)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: unknown method 'fedvsl'; did you mean 'fedvls'?\n"
