"""Every example runs as its docstring says, and prints what it is about."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from support import ROOT, run_command, run_python

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def run_example(name: str, cwd: Path) -> str:
    done = run_python(ROOT / "examples" / name, cwd=cwd)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert list(cwd.iterdir()) == []  # an example leaves nothing behind
    return done.stdout


def test_from_scratch_learns(tmp_path):
    out = run_example("fedvls_from_scratch.py", tmp_path)
    accuracy = [float(a) for a in re.findall(r"round \d+: test accuracy ([\d.]+) %", out)]
    assert len(accuracy) == 10
    assert accuracy[-1] > 2 * 10  # ten classes: guessing is 10 %
    assert accuracy[-1] > accuracy[0]


def test_own_method_runs_beside_fedavg(tmp_path):
    out = run_example("own_method.py", tmp_path)
    after = dict(re.findall(r"(fedavg|focal-vacant): .* to ([\d.]+) %", out))
    assert float(after["focal-vacant"]) > float(after["fedavg"]) + 10  # what calibration does for vacant classes


def test_own_method_serves_the_command_line_and_resume(tmp_path):
    choices = ["--beta", 0.05, "--rounds", 1, "--epochs", 1, "--set", "method.gamma=3", "--out", "r"]
    imported = ["--import", ROOT / "examples" / "own_method.py", "--method", "focal-vacant"]
    run_command("run", *imported, *choices, cwd=tmp_path, check=True)
    assert "gamma: 3.0" in (tmp_path / "r" / "config.yaml").read_text()
    resumed = run_command("resume", "r", cwd=tmp_path, check=True)
    assert "focal-vacant on digits" in resumed.stdout


def test_own_model_predicts_what_was_measured(tmp_path):
    out = run_example("own_model.py", tmp_path)
    last = float(re.findall(r"accuracy by round: .* ([\d.]+)\n", out)[0])
    predicted = float(re.findall(r"result.model on the test set: ([\d.]+) %", out)[0])
    assert predicted == pytest.approx(last, abs=0.051)  # the curve is printed with one digit
    assert "'present': True" in out


def test_own_data_reads_arrays_files_and_sites(tmp_path):
    out = run_example("own_data.py", tmp_path)
    assert "133 train, 45 test" in out
    assert "from wine.npz: accuracy" in out
    assert "vacant classes of each site: [[2], [2], [0, 1]]" in out


def test_own_loop_keeps_vacant_classes(tmp_path):
    out = run_example("own_loop.py", tmp_path)
    vacant = {
        name: float(v) for name, v in re.findall(r"(received|cross-entropy|FedVLS).* vacant classes +([\d.]+)", out)
    }
    assert vacant["FedVLS"] > vacant["cross-entropy"] + 10
    assert abs(vacant["FedVLS"] - vacant["received"]) < 10


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_says_how_to_run_it(path):
    tree = ast.parse(path.read_text())
    assert f"python examples/{path.name}" in (ast.get_docstring(tree) or "")
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    assert any(f.name == "main" for f in functions)
    for function in functions:
        assert function.returns is not None, f"{function.name} has no return type"


def test_every_example_is_tested():
    here = Path(__file__).read_text()
    assert [path.name for path in EXAMPLES if f'run_example("{path.name}"' not in here] == []
