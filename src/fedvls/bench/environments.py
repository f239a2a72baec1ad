"""Rivals: what to install, in an environment of their own, and what to run there."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .watch import NotRun

SCRIPTS = Path(__file__).parent / "rivals"


@dataclass(frozen=True)
class Rival:
    """A program we compare with."""

    name: str
    title: str
    requirement: str
    """What pip is asked for, beside PyTorch."""

    @property
    def script(self) -> Path:
        return SCRIPTS / f"on_{self.name}.py"


RIVALS = {
    rival.name: rival
    for rival in (
        Rival("fluke", "fluke", "fluke-fl"),
        Rival("flwr", "Flower simulation", "flwr[simulation]"),
        Rival("pfl", "pfl", "pfl"),
    )
}


def interpreter(rival: Rival, cache: Path, tell: Callable[[str], None]) -> Path:
    """Python of the rival's environment, which is made if it is not there yet.

    PyTorch is held at our own version: the comparison is between programs, and a plain install may replace it by
    another build. A half-made environment is made again.
    """
    import torch

    version = torch.__version__.partition("+")[0]
    folder = cache / f"{rival.name}-python{sys.version_info.major}.{sys.version_info.minor}-torch{version}"
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    complete = folder / "complete.json"
    if complete.is_file():
        return python
    tell(f"making an environment for {rival.title} in {folder} (pip install {rival.requirement})")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    constraint = folder / "constraints.txt"
    constraint.write_text(f"torch=={version}\n", encoding="utf-8")
    _call([sys.executable, "-m", "venv", folder], "its environment cannot be made")
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--constraint", str(constraint)]
    _call([python, *install, "torch", "numpy", rival.requirement], "it cannot be installed")
    complete.write_text(json.dumps({"requirement": rival.requirement, "torch": version}), encoding="utf-8")
    return python


def _call(command: Sequence[str | Path], what: str) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise NotRun(f"{what}: {lines[-1][:200] if lines else f'code {done.returncode}'}")
