"""A study's table as text: Markdown, LaTeX, CSV, JSON, and lines for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..errors import unknown
from ..report.tables import TITLES, csv_grid, latex_grid, latex_text, markdown_grid
from ..runs.files import to_json
from .claims import UNKNOWN, Verdict
from .readings import SCORED
from .study import Point
from .table import Entry, StudyTable

FORMATS = ("table", "markdown", "latex", "csv", "json")
UNITS = {
    "percent": "test accuracy in %",
    "ratio": "a ratio without a unit",
    "samples": "number of samples",
}


def render(table: StudyTable, form: str) -> str:
    """The table in one of the text formats."""
    if form == "json":
        return to_json(to_dict(table), indent=2)
    texts = {"markdown": _markdown, "latex": _latex, "csv": _csv}
    if form not in texts:
        raise unknown("format", form, FORMATS)
    return texts[form](table)


def caption(table: StudyTable) -> str:
    """What the numbers are: unit, score, seeds, and how the paper's setting was changed, if it was."""
    study = table.study
    said = [f"{study.title} ({study.paper}): {UNITS[study.unit]}"]
    if study.read in SCORED:
        said.append({"best": "best round", "last": "last round"}.get(table.score, TITLES[table.score]))
    return ", ".join([*said, table.seeds_text]) + (
        f". {table.label[0].upper()}{table.label[1:]}." if table.label else "."
    )


def head(table: StudyTable, column: Point) -> str:
    """A column's label with the rounds behind it: those of most rows; CSV and JSON have them cell by cell.

    Where some rows have fewer than the paper and not all the same, every number of rounds is told.
    """
    entries = [table.entry(row, column) for row in table.rows]
    lengths = Counter((e.rounds, e.paper_rounds) for e in [e for e in entries if e.measured] or entries).most_common()
    (_, full), _ = lengths[0]
    if not full:  # nothing was trained
        return column.label
    fewer = any(done < full for (done, full), _ in lengths) and len({done for (done, _), _ in lengths}) > 1
    told = [f"{done} of {full}" if done < full else str(done) for (done, full), _ in lengths]
    return f"{column.label}, {' / '.join(told if fewer else told[:1])} rounds"


def number(value: float, unit: str) -> str:
    return f"{value:.0f}" if unit == "samples" else f"{value:.2f}"


def measured_text(entry: Entry, unit: str) -> str:
    """`61.22 ± 0.30`, with the number of seeds where some are missing, or why there is none."""
    if entry.mean is None:
        return "failed" if entry.failure else "–"  # noqa: RUF001 (a dash)
    there = len(entry.measured)
    missing = f", {there} of {entry.seeds} seeds" if there < entry.seeds else ""
    return _spread(entry.mean, entry.std, unit) + missing


def published_text(entry: Entry, unit: str) -> str:
    return "" if entry.published is None else _spread(entry.published.mean, entry.published.std, unit)


def difference_text(entry: Entry, unit: str) -> str:
    if entry.difference is None:
        return ""
    return f"{entry.difference:+.0f}" if unit == "samples" else f"{entry.difference:+.2f}"


def cell_text(entry: Entry, unit: str) -> str:
    """Measured, then the paper's and the difference: `61.22 ± 0.30 (paper 62.90 ± 0.95, -1.68)`."""
    said = measured_text(entry, unit)
    if entry.published is None or (unit == "samples" and entry.difference == 0):
        return said
    return f"{said} ({', '.join(filter(None, [f'paper {published_text(entry, unit)}', difference_text(entry, unit)]))})"


def claims_head(table: StudyTable) -> str:
    """Whose claims they are: studies that the paper has not make claims of their own."""
    whose = "" if table.study.paper == "not in the paper" else " of the paper"
    return f"Claims{whose}, from the measured cells:"


def claim_lines(verdicts: Sequence[Verdict], every: bool = False) -> list[str]:
    """One line per claim, and below it the measured cases (with `every` also those that are not)."""
    lines = []
    for verdict in verdicts:
        lines.append(f"{verdict.text}: {verdict.summary}")
        for case in verdict.cases:
            if every or case.outcome != UNKNOWN:
                lines.append(f"  {case.where}: {case.outcome}" + (f" ({case.detail})" if case.detail else ""))
    return lines


def to_dict(table: StudyTable) -> dict[str, Any]:
    """Everything, ready for JSON."""
    study = table.study
    return {
        "study": study.name,
        "title": study.title,
        "paper": study.paper,
        "unit": study.unit,
        "score": table.score,
        "seeds": list(table.seeds),
        "scaled_down": bool(table.label),
        "label": table.label,
        "rows": [row.label for row in table.rows],
        "columns": [column.label for column in table.columns],
        "cells": [_cell_dict(entry) for entry in table.entries.values()],
        "claims": [
            {
                "claim": verdict.text,
                "summary": verdict.summary,
                "cases": [vars(case) for case in verdict.cases],
                "published": [vars(case) for case in verdict.published],
            }
            for verdict in table.verdicts
        ],
        "notes": list(study.notes),
    }


def _cell_dict(entry: Entry) -> dict[str, Any]:
    printed = entry.published
    return {
        "row": entry.row.label,
        "column": entry.column.label,
        "axes": {**entry.row.axes, **entry.column.axes},
        "published": None if printed is None else {"mean": printed.mean, "std": printed.std},
        "measured": None if entry.mean is None else {"mean": entry.mean, "std": entry.std},
        "difference": entry.difference,
        "values": {str(seed): value for seed, value in entry.measured.items()},
        "rounds": entry.rounds,
        "paper_rounds": entry.paper_rounds,
        "runs": list(entry.runs),
        "failure": entry.failure,
    }


def _grid(table: StudyTable) -> tuple[list[str], list[list[str]]]:
    unit = table.study.unit
    lines = [
        [row.label, *(cell_text(table.entry(row, column), unit) for column in table.columns)] for row in table.rows
    ]
    return ["", *(head(table, column) for column in table.columns)], lines


def _markdown(table: StudyTable) -> str:
    heads, lines = _grid(table)
    parts = [f"**{caption(table)}**", markdown_grid(heads, lines, len(table.columns))]
    if table.verdicts:
        parts.append(claims_head(table))
        parts.append("\n".join(f"- {v.text}: {v.summary}" for v in table.verdicts))
    if table.study.notes:
        parts.append("\n".join(f"- {note}" for note in table.study.notes))
    return "\n\n".join(parts)


def _latex(table: StudyTable) -> str:
    heads, lines = _grid(table)
    return latex_table(latex_grid(heads, lines, len(table.columns)), caption(table), table.study.name)


def latex_table(grid: str, caption: str, name: str) -> str:
    """A LaTeX tabular as a table with a caption and a label."""
    end = rf"\caption{{{latex_text(caption)}}}"
    return "\n".join([r"\begin{table}", r"\centering", grid, end, rf"\label{{tab:{name}}}", r"\end{table}"])


def _csv(table: StudyTable) -> str:
    """One line per cell."""
    axes = list(dict.fromkeys(a for entry in table.entries.values() for a in (*entry.row.axes, *entry.column.axes)))
    heads = ["study", "row", "column", *axes, "published_mean", "published_std", "measured_mean", "measured_std"]
    heads += ["difference", "score", "seeds", "rounds", "paper_rounds", "label"]
    lines = []
    for entry in table.entries.values():
        own, printed = {**entry.row.axes, **entry.column.axes}, entry.published
        numbers = [printed.mean, printed.std] if printed else [None, None]
        numbers += [entry.mean, entry.std, entry.difference]
        lines.append(
            [
                *(table.study.name, entry.row.label, entry.column.label),
                *(own.get(axis, "") for axis in axes),
                *("" if v is None else round(v, 6) for v in numbers),
                table.score,
                " ".join(map(str, entry.measured)),
                *(entry.rounds, entry.paper_rounds, table.label),
            ]
        )
    return csv_grid(heads, lines)


def _spread(mean: float, std: float | None, unit: str) -> str:
    return number(mean, unit) if std is None else f"{number(mean, unit)} ± {number(std, unit)}"
