"""`fedvls flower new`: a Flower app folder that is ready to run."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from string import Template

from ..errors import UsageError
from ..runs.config import AT_SITES
from .settings import read_plan

PARTITION = """
[tool.flwr.app.config.partition]
name = "dirichlet"
beta = 0.1

"""
NO_PARTITION = "\n"


def write_app(
    folder: Path,
    *,
    method: str,
    model: str,
    clients: int,
    rounds: int,
    dataset: str,
    sample_shape: str,
    classes: int,
) -> list[Path]:
    """Write the folder; nothing that exists is overwritten."""
    name = folder.resolve().name
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]{0,31}", name):
        raise UsageError(f"{name!r} cannot be a Flower app's name: letters, digits and -, a letter first, at most 32")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists and is not an empty folder; choose another name")
    own = dataset == AT_SITES
    if own and not (sample_shape and classes):
        raise UsageError(
            "for the sites' own data give --sample-shape (e.g. 1,28,28) and --classes, or try with --dataset digits"
        )
    read_plan({"clients": clients, "rounds": rounds}, method, model)  # its values are checked before a file is written
    values = {
        "name": name,
        "publisher": "fedvls",
        "method": method,
        "model": model,
        "clients": clients,
        "rounds": rounds,
        "dataset": dataset,
        "partition": NO_PARTITION if own else PARTITION,
        "sample_shape": sample_shape,
        "classes": classes,
        "run_dir": str(folder.resolve() / "run"),
    }
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for source in sorted(files("fedvls.flower").joinpath("template").iterdir(), key=lambda entry: entry.name):
        if not source.name.endswith((".py", ".txt")):
            continue
        text = source.read_text(encoding="utf-8")
        if source.name.endswith(".txt"):  # so that no tool takes a template for the real thing
            text = Template(text).substitute(values)
        target = folder / source.name.removesuffix(".txt")
        target.write_text(text, encoding="utf-8")
        written.append(target)
    return written
