"""Sweeps: the product of values for any keys of a configuration, one run for each and each seed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ..errors import UsageError
from ..report.tables import SCORES, TITLES, csv_grid, latex_grid, markdown_grid, mean_std
from ..runs.files import to_json
from ..runs.scores import scores
from ..runs.store import RunDirectory
from .jobs import Job

Values = dict[str, Any]


@dataclass(frozen=True)
class Combination:
    """One value for every swept key, and its jobs by seed."""

    values: Values
    jobs: Mapping[int, Job]


def parse_over(texts: Sequence[str]) -> list[Values]:
    """Every combination of `key=value,value,...`, the last key changing fastest; values are read as YAML."""
    axes: dict[str, list[Any]] = {}
    for text in texts:
        key, equals, listed = text.partition("=")
        key = key.strip()
        try:
            values = yaml.safe_load(f"[{listed}]") if equals and key else []
        except yaml.YAMLError:
            values = []
        if not values:
            raise UsageError(f"--over {text!r} must look like key=value,value, e.g. method.lam=0.05,0.1,0.5")
        if key in axes:
            raise UsageError(f"--over names {key} twice; give all its values at once: {key}=value,value")
        if key == "seed":
            raise UsageError("--over seed=... : give seeds with --seeds, so that their mean and deviation are shown")
        axes[key] = values
    return [dict(zip(axes, chosen, strict=True)) for chosen in itertools.product(*axes.values())]


def table_rows(combinations: Sequence[Combination], root: Path, failures: Mapping[str, str]) -> list[Values]:
    """Mean and deviation over seeds of each score, for every combination."""
    rows = []
    for combination in combinations:
        curves = {}
        for seed, job in combination.jobs.items():
            if job.is_finished(root):
                curves[seed] = [r["accuracy"] for r in RunDirectory(job.folder(root)).records()]
        row: Values = {
            "values": combination.values,
            "seeds": list(curves),
            "rounds": max((len(curve) for curve in curves.values()), default=0),
            "runs": [str(combination.jobs[seed].folder(root)) for seed in curves],
            "failures": [failures[job.key] for job in combination.jobs.values() if job.key in failures],
        }
        for score in SCORES:
            measured = [float(scores(curve)[score]) for curve in curves.values()]
            mean, std = mean_std(measured) if measured else (None, None)
            row[score] = {"mean": mean, "std": std if len(measured) > 1 else None, "values": measured}
        rows.append(row)
    return rows


def grid(rows: Sequence[Values]) -> tuple[list[str], list[list[str]]]:
    """Heads and lines of text; accuracies in percent."""
    keys = list(rows[0]["values"])
    lines = []
    for row in rows:
        numbers = []
        for score in SCORES:
            mean, std = row[score]["mean"], row[score]["std"]
            text = "failed" if mean is None else f"{100 * mean:.2f}"
            numbers.append(text if std is None else f"{text} ± {100 * std:.2f}")
        lines.append([*(str(row["values"][k]) for k in keys), str(row["rounds"]), _listed(row["seeds"]), *numbers])
    return [*keys, "rounds", "seeds", *TITLES.values()], lines


def render(rows: Sequence[Values], form: str) -> str:
    """Markdown, LaTeX, CSV or JSON."""
    if form == "json":
        return to_json(rows, indent=2)
    if form == "csv":
        return _csv(rows)
    heads, lines = grid(rows)
    return (markdown_grid if form == "markdown" else latex_grid)(heads, lines, len(SCORES))


def _csv(rows: Sequence[Values]) -> str:
    """Numbers as numbers: means and deviations in columns of their own, as shares between 0 and 1."""
    heads = [
        *rows[0]["values"],
        "rounds",
        "seeds",
        *(f"{score}_{part}" for score in SCORES for part in ("mean", "std")),
    ]
    lines = []
    for row in rows:
        numbers = [row[score][part] for score in SCORES for part in ("mean", "std")]
        known = ("" if number is None else number for number in numbers)
        lines.append([*row["values"].values(), row["rounds"], " ".join(map(str, row["seeds"])), *known])
    return csv_grid(heads, lines)


def _listed(seeds: Sequence[int]) -> str:
    return ",".join(map(str, seeds))
