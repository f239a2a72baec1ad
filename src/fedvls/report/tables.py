"""Runs as rows: one per configuration, mean and standard deviation over its seeds."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import unknown
from ..runs.config import AT_SITES, FREE
from ..runs.files import to_json
from ..runs.imports import import_files
from ..runs.scores import scores
from ..runs.store import RunDirectory

Member = tuple[RunDirectory, list[float]]
"""A run and its accuracy by round."""
SCORES = ("best", "last", "mean_last_five")
FORMATS = ("table", "markdown", "latex", "json")
TITLES = {"best": "best", "last": "last", "mean_last_five": "mean of last 5"}


def mean_std(values: Sequence[float]) -> tuple[float, float]:
    """Mean and population standard deviation over seeds (ddof 0, as the released program reports)."""
    average = sum(values) / len(values)
    return average, math.sqrt(sum((v - average) ** 2 for v in values) / len(values))


@dataclass(frozen=True)
class Row:
    """Runs that differ in their seeds only."""

    method: str
    setting: str
    rounds: int
    seeds: list[int]
    scores: dict[str, list[float]]
    complete: bool
    vacant: float | None
    """Vacant classes per client; None where only the sites know (a deployment)."""
    runs: list[str]

    def mean_std(self, score: str) -> tuple[float, float]:
        return mean_std(self.scores[score])

    def to_dict(self) -> dict[str, Any]:
        plain: dict[str, Any] = {
            "method": self.method,
            "setting": self.setting,
            "rounds": self.rounds,
            "seeds": self.seeds,
            "complete": self.complete,
            "vacant_per_client": self.vacant,
            "runs": self.runs,
        }
        for score in SCORES:
            average, deviation = self.mean_std(score)
            plain[score] = {"mean": average, "std": deviation, "values": self.scores[score]}
        return plain


def summarise(runs: Sequence[RunDirectory]) -> list[Row]:
    """One row per configuration, in the order they come; runs without a finished round are left out.

    Where a run was computed is none of its configuration, unless a seed was run in several places.
    """
    measured = [(run, [record["accuracy"] for record in run.records()]) for run in runs]
    rows = []
    for group in _grouped([member for member in measured if member[1]], _configuration):
        seeds = [run.config().seed for run, _ in group]
        rows += [group] if len(set(seeds)) == len(seeds) else _grouped(group, _place)
    return [_row(members) for members in rows]


def _grouped(members: Sequence[Member], key: Callable[[Mapping[str, Any]], object]) -> list[list[Member]]:
    """Members of which the key says the same, in the order they come."""
    groups: dict[str, list[Member]] = {}
    for member in members:
        config = member[0].config().to_mapping()
        groups.setdefault(json.dumps(key(config), sort_keys=True), []).append(member)
    return list(groups.values())


def _configuration(config: Mapping[str, Any]) -> object:
    data = {key: value for key, value in config["data"].items() if key != "data_dir"}
    return {key: value for key, value in config.items() if key not in ("seed", "start", *FREE)} | {"data": data}


def _place(config: Mapping[str, Any]) -> object:
    return [config["data"].get("data_dir"), *(config[key] for key in FREE)]


def _row(members: Sequence[Member]) -> Row:
    first = members[0][0].config()
    import_files(first.imports)
    measured = [scores(curve) for _, curve in members]
    return Row(
        method=short_name(first.method),
        setting=setting_label(first.to_mapping()),
        rounds=max(len(curve) for _, curve in members),
        seeds=[run.config().seed for run, _ in members],
        scores={score: [float(m[score]) for m in measured] for score in SCORES},
        complete=all(run.is_complete for run, _ in members),
        vacant=_mean_known([run.header()["partition"]["vacant_per_client"] for run, _ in members]),
        runs=[str(run.path) for run, _ in members],
    )


def _mean_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def setting_label(setting: Mapping[str, Any]) -> str:
    """`digits, dirichlet(beta=0.05), 10 clients`, or `data at 3 sites`."""
    if setting["data"]["name"] == AT_SITES:
        return f"data at {setting['clients']} sites"
    return f"{short_name(setting['data'])}, {short_name(setting['partition'])}, {setting['clients']} clients"


def short_name(section: dict[str, Any]) -> str:
    """`fedvls(lam=0.5)`: the name with what is worth seeing."""
    from .. import methods  # noqa: F401  (registers them)
    from ..method import METHODS
    from ..partition import PARTITIONS

    name = str(section.get("name"))
    registry = next((r for r in (METHODS, PARTITIONS) if name in r), None)
    defaults = registry.entry(name).defaults if registry else {}
    shown = {k: v for k, v in section.items() if k in defaults and v != defaults[k]}
    if "beta" in defaults and name.startswith("dirichlet"):
        shown["beta"] = section.get("beta", defaults["beta"])
    for part in ("step", "server"):
        if isinstance(section.get(part), dict):
            shown[part] = section[part].get("name")
    shown |= {key: section[key] for key in ("merged_split", "evaluate_on") if key in section}  # of data
    short = name.rsplit("/", 1)[-1]
    return f"{short}({', '.join(f'{k}={v}' for k, v in shown.items())})" if shown else short


HEADS = ("method", "setting", "rounds", "seeds", *TITLES.values())


def line(row: Row, without: Sequence[str] = ()) -> dict[str, str]:
    """The row as text by column, accuracies in percent."""
    many = len(row.seeds) > 1
    rounds = str(row.rounds) if row.complete else f"{row.rounds} (unfinished)"
    texts = [row.method, row.setting, rounds, ",".join(map(str, row.seeds))]
    for score in SCORES:
        average, deviation = row.mean_std(score)
        texts.append(f"{100 * average:.2f} ± {100 * deviation:.2f}" if many else f"{100 * average:.2f}")
    return {column: text for column, text in zip(HEADS, texts, strict=True) if column not in without}


def render(rows: Sequence[Row], form: str) -> str:
    """Markdown, LaTeX or JSON text."""
    if form == "json":
        return to_json([row.to_dict() for row in rows], indent=2)
    if form == "markdown":
        return markdown_grid(*_grid(rows), len(SCORES))
    if form == "latex":
        return latex_grid(*_grid(rows), len(SCORES))
    raise unknown("format", form, FORMATS)


def _grid(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Heads and lines."""
    return list(HEADS), [[*line(row).values()] for row in rows]


def markdown_grid(heads: Sequence[str], lines: Iterable[Sequence[str]], right: int) -> str:
    """A Markdown table; the last `right` columns are numbers."""
    rule = ["---"] * (len(heads) - right) + ["---:"] * right
    escaped = ([cell.replace("|", r"\|").replace("\n", " ") for cell in line] for line in (heads, rule, *lines))
    return "\n".join(f"| {' | '.join(line)} |" for line in escaped)


def latex_grid(heads: Sequence[str], lines: Iterable[Sequence[str]], right: int) -> str:
    """A LaTeX tabular (booktabs); the last `right` columns are numbers."""
    head, *body = (" & ".join(map(latex_text, line)) + r" \\" for line in (heads, *lines))
    begin = rf"\begin{{tabular}}{{{'l' * (len(heads) - right)}{'r' * right}}}"
    return "\n".join([begin, r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"])


def csv_grid(heads: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """Comma-separated values, quoted where needed."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([heads, *lines])
    return file.getvalue().removesuffix("\n")


def latex_text(text: str) -> str:
    """Text with LaTeX's special characters escaped."""
    escapes = {"\\": r"\textbackslash{}", "±": r"$\pm$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(escapes.get(c, f"\\{c}" if c in "&%$#_{}" else c) for c in text)
