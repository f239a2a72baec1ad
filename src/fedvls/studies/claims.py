"""What a paper claims about its table, checked against the measured cells. A claim is data; here is what it means.

A claim is about *cases*: columns (in which rows are compared) or, with `compare: columns`, rows. `only` keeps the cases
with these axes. Each case holds, fails, or is not measured.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .study import Point, Study

Claim = Mapping[str, Any]
Values = Mapping[tuple[str, str], float | None]
HOLDS, FAILS, UNKNOWN = "holds", "does not hold", "not measured"


@dataclass(frozen=True)
class Case:
    """A claim in one column (or row, or group of columns): its outcome and the numbers behind it."""

    where: str
    outcome: str
    detail: str = ""


@dataclass(frozen=True)
class Verdict:
    """A claim with its cases, and the cases of the published table for comparison."""

    text: str
    cases: Sequence[Case]
    published: Sequence[Case]

    @property
    def summary(self) -> str:
        """`holds in 2 of 3 cases; in the paper holds in 11 of 12 cases`; the paper's part only where it has numbers."""
        printed = _count(self.published)
        return _count(self.cases) + ("" if printed == UNKNOWN else f"; in the paper {printed}")


def judge(claim: Claim, study: Study, measured: Values) -> Verdict:
    """The claim against the measured values, and against the published ones."""
    printed = {
        (row.label, column.label): value.mean
        for row in study.rows
        for column in study.columns
        if (value := study.printed(row, column)) is not None
    }
    kind = KINDS[claim["kind"]]
    of_paper = [] if claim["kind"] == "equal" else kind(claim, study, printed, printed)
    return Verdict(claim["text"], kind(claim, study, measured, printed), of_paper)


def _count(cases: Sequence[Case]) -> str:
    known = [case for case in cases if case.outcome != UNKNOWN]
    if not known:
        return UNKNOWN
    held = sum(case.outcome == HOLDS for case in known)
    if len(known) == 1:
        return known[0].outcome
    return f"holds in all {held} cases" if held == len(known) else f"holds in {held} of {len(known)} cases"


def _cases(claim: Claim, study: Study, values: Values) -> list[tuple[Point, dict[str, float]]]:
    """The cases of a claim, each with the measured values to be compared, by label."""
    along_columns = claim.get("compare") == "columns"
    cases, compared = (study.rows, study.columns) if along_columns else (study.columns, study.rows)
    found = []
    for case in cases:
        if not _kept(case, claim.get("only", {})):
            continue
        places = {p.label: (case.label, p.label) if along_columns else (p.label, case.label) for p in compared}
        found.append((case, {label: v for label, place in places.items() if (v := values.get(place)) is not None}))
    return found


def _kept(point: Point, only: Mapping[str, Any]) -> bool:
    wanted = {axis: value if isinstance(value, list) else [value] for axis, value in only.items()}
    return all(point.axes.get(axis) in values for axis, values in wanted.items())


def _first(claim: Claim, study: Study, values: Values, printed: Values) -> list[Case]:
    """The subject is strictly above everyone measured; one that beats it, or draws level, is enough to fail."""
    subject, sign = claim["subject"], -1 if claim.get("lowest") else 1
    compared = study.columns if claim.get("compare") == "columns" else study.rows
    among = claim.get("among") or [point.label for point in compared]
    cases = []
    for case, found in _cases(claim, study, values):
        rivals = {name: value for name, value in found.items() if name in among and name != subject}
        if subject not in found or not rivals:
            cases.append(Case(case.label, UNKNOWN))
            continue
        best = max(rivals, key=lambda name: sign * rivals[name])
        rank = 1 + sum(sign * value > sign * found[subject] for value in rivals.values())
        tied = [name for name, value in rivals.items() if value == found[subject]]
        missing = "" if len(rivals) + 1 == len(among) else f", of {len(among)} in the paper"
        margin = f"level with {', '.join(tied)}" if tied else f"{found[subject] - rivals[best]:+.2f} against {best}"
        detail = f"rank {rank} of {len(rivals) + 1}{missing}; {margin}"
        cases.append(Case(case.label, HOLDS if rank == 1 and not tied else FAILS, detail))
    return cases


def _order(claim: Claim, study: Study, values: Values, printed: Values) -> list[Case]:
    """The named ones in this order, the largest (or, with `lowest`, the smallest) first."""
    ordered, sign = claim["names"], -1 if claim.get("lowest") else 1
    cases = []
    for case, found in _cases(claim, study, values):
        if any(name not in found for name in ordered):
            cases.append(Case(case.label, UNKNOWN))
            continue
        chosen = [found[name] for name in ordered]
        falling = all(sign * a > sign * b for a, b in itertools.pairwise(chosen))
        detail = ", ".join(f"{name} {value:.2f}" for name, value in zip(ordered, chosen, strict=True))
        cases.append(Case(case.label, HOLDS if falling else FAILS, detail))
    return cases


def _widening(claim: Claim, study: Study, values: Values, printed: Values) -> list[Case]:
    """The subject's lead over another grows from column to column of a group, in the table's order."""
    groups: dict[str, list[float]] = {}
    for case, found in _cases(claim, study, values):
        leads = groups.setdefault(str(case.axes.get(claim["group"])), [])
        if claim["subject"] in found and claim["over"] in found:
            leads.append(found[claim["subject"]] - found[claim["over"]])
    return [
        Case(group, UNKNOWN)
        if len(leads) < 2
        else Case(group, HOLDS if leads == sorted(set(leads)) else FAILS, " -> ".join(f"{v:+.2f}" for v in leads))
        for group, leads in groups.items()
    ]


def _flat(claim: Claim, study: Study, values: Values, printed: Values) -> list[Case]:
    """The measured values of a case lie within `limit` of each other."""
    cases = []
    for case, found in _cases(claim, study, values):
        spread = max(found.values()) - min(found.values()) if len(found) > 1 else None
        if spread is None:
            cases.append(Case(case.label, UNKNOWN))
        else:
            detail = f"spread {spread:.2f} over {len(found)}"
            cases.append(Case(case.label, HOLDS if spread <= claim["limit"] else FAILS, detail))
    return cases


def _equal(claim: Claim, study: Study, values: Values, printed: Values) -> list[Case]:
    """Every measured cell is the published one."""
    both = [(values[place], value) for place, value in printed.items() if values.get(place) is not None]
    if not both:
        return [Case("all cells", UNKNOWN)]
    same = sum(mine == theirs for mine, theirs in both)
    return [Case("all cells", HOLDS if same == len(both) else FAILS, f"{same} of {len(both)} cells")]


KINDS: dict[str, Callable[[Claim, Study, Values, Values], list[Case]]] = {
    "first": _first,
    "order": _order,
    "widening": _widening,
    "flat": _flat,
    "equal": _equal,
}
