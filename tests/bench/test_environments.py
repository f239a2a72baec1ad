"""Rivals live in environments of their own; what cannot be installed is one line of the table."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
import torch

from fedvls.bench import environments
from fedvls.bench.environments import RIVALS, Rival, interpreter
from fedvls.bench.watch import NotRun


@pytest.fixture
def calls(monkeypatch):
    """Commands that would be run."""
    made = []
    monkeypatch.setattr(environments, "_call", lambda command, what: made.append([str(word) for word in command]))
    return made


def test_an_environment_is_made_once_with_our_own_pytorch(tmp_path, calls):
    notes = []
    python = interpreter(RIVALS["flwr"], tmp_path, notes.append)
    venv, install = calls
    assert venv[:3] == [sys.executable, "-m", "venv"]
    assert install[0] == str(python)
    assert install[-1] == "flwr[simulation]"
    constraint = Path(install[install.index("--constraint") + 1])
    assert constraint.read_text() == f"torch=={torch.__version__.partition('+')[0]}\n"
    assert len(notes) == 1
    assert "pip install flwr[simulation]" in notes[0]
    assert interpreter(RIVALS["flwr"], tmp_path, notes.append) == python
    assert (len(calls), len(notes)) == (2, 1)


def test_a_half_made_environment_is_made_again(tmp_path, calls):
    python = interpreter(RIVALS["pfl"], tmp_path, lambda text: None)
    (python.parent.parent / "complete.json").unlink()
    (python.parent.parent / "rest").touch()
    interpreter(RIVALS["pfl"], tmp_path, lambda text: None)
    assert len(calls) == 4
    assert not (python.parent.parent / "rest").exists()


def test_a_failed_install_is_one_line():
    failing = "import sys; sys.exit('WARNING: x\\nERROR: No matching distribution found for nothing\\nsee the manual')"
    with pytest.raises(NotRun, match=r"^it cannot be installed: ERROR: No matching distribution found for nothing$"):
        environments._call([sys.executable, "-c", failing], "it cannot be installed")


@pytest.mark.parametrize("rival", RIVALS.values(), ids=lambda rival: rival.name)
def test_a_rivals_script_does_not_need_the_package(rival: Rival):
    for script in (rival.script, rival.script.with_name("shared.py")):
        tree = ast.parse(script.read_text())
        modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        modules |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        assert not [module for module in modules if str(module).partition(".")[0] == "fedvls"]
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level]
