"""A study: rows x columns of cells, what was published, how a number is read from a run. All of it is data.

Every cell is described by *axes* (`dataset`, `beta`, `method`, `class`, ...): those fixed for the whole study, those of
its row and those of its column. Some say what is run (`SETTINGS`), the others where in the finished run the number is.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import yaml

from ..errors import UsageError, unknown

Axes = Mapping[str, Any]

# Axes that are keys of a configuration.
SETTINGS = {
    "dataset": "data.name",
    "method": "method.name",
    "lam": "method.lam",
    "partition": "partition.name",
    "beta": "partition.beta",
    "shards": "partition.classes_per_client",
    "model": "model.name",
    "participation": "participation",
    "epochs": "epochs",
    "clients": "clients",
    "scored": "data.evaluate_on",
}
# Axes that say what is read: of whom, when, which class.
READING = ("first", "least", "below", "domain", "client", "class", "group", "moment", "actual", "predicted")
NOT_AXES = ("label", "set", "only")
NAMED_BY_VALUE = ("method", "model", "domain", "partition", "moment")


@dataclass(frozen=True, eq=False)
class Point:
    """A row or a column: its axes, its name, settings beyond the axes, and the axes of the cells it has (all)."""

    axes: Axes
    label: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    only: Axes = field(default_factory=dict)


@dataclass(frozen=True)
class Published:
    """A printed value; no deviation where none is printed."""

    mean: float
    std: float | None = None


@dataclass(frozen=True)
class Study:
    """What its file says; `start` are the axes of the run whose final weights all others begin with."""

    name: str
    title: str
    paper: str
    rows: tuple[Point, ...]
    columns: tuple[Point, ...]
    read: str
    seeds: tuple[int, ...]
    unit: str = "percent"
    fixed: Axes = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    start: Axes | None = None
    published: Mapping[str, tuple[Published | None, ...]] = field(default_factory=dict)
    claims: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    figure: str | None = None

    @property
    def trains(self) -> bool:
        """Whether anything is trained, or only labels are shared out."""
        return self.read != "counts"

    def axes(self, row: Point, column: Point) -> dict[str, Any]:
        return {**self.fixed, **row.axes, **column.axes}

    def has(self, row: Point, column: Point) -> bool:
        """Whether there is something to measure at this place of the table."""
        axes = self.axes(row, column)
        return all(axes[axis] == value for point in (row, column) for axis, value in point.only.items())

    def printed(self, row: Point, column: Point) -> Published | None:
        """The published value of a cell."""
        values = self.published.get(row.label)
        place = next((k for k, c in enumerate(self.columns) if c.label == column.label), None)
        return None if values is None or place is None else values[place]


@functools.cache
def protocol() -> dict[str, Any]:
    """The paper's setting by data set, and the list of studies."""
    return _read("protocol")


def names() -> list[str]:
    """All studies, tables first, in the paper's order."""
    return list(protocol()["studies"])


@functools.cache
def load_study(name: str) -> Study:
    """The study of this name."""
    if name not in names():
        raise unknown("study", name, names())
    about = _read(name)
    return Study(
        name=name,
        title=about["title"],
        paper=about["paper"],
        rows=_points(about["rows"]),
        columns=_points(about["columns"]),
        read=about["read"],
        seeds=tuple(about.get("seeds", protocol()["seeds"])),
        unit=about.get("unit", "percent"),
        fixed=about.get("fixed", {}),
        settings=about.get("set", {}),
        start=about.get("start"),
        published={str(row): tuple(map(_published, values)) for row, values in about.get("published", {}).items()},
        claims=tuple(about.get("claims", ())),
        notes=tuple(about.get("notes", ())),
        figure=about.get("figure"),
    )


def narrowed(study: Study, wanted: Mapping[str, Sequence[str]]) -> tuple[tuple[Point, ...], tuple[Point, ...]]:
    """The rows that have a wanted value on every axis in `wanted` that any row has, and the columns likewise.

    `row` and `column` ask for a label; one with a comma may come in pieces, as the command line cuts it. An axis or a
    value that the study does not have is an error.
    """
    sides = {"row": _labelled(study.rows, "row"), "column": _labelled(study.columns, "column")}
    every = [*sides["row"].values(), *sides["column"].values(), dict(study.fixed)]
    values = {axis: [axes[axis] for axes in every if axis in axes] for axis in wanted}
    wanted = {axis: _rejoined(texts, values[axis]) for axis, texts in wanted.items()}
    for axis, texts in wanted.items():
        there = list(dict.fromkeys(repr(v) if "," in str(v) else str(v) for v in values[axis]))
        for text in texts:
            if not any(_same(value, text) for value in values[axis]):
                have = f"it has {', '.join(there)}" if there else "that is no axis of it"
                raise UsageError(f"study {study.name!r} has no {axis} {text!r}; {have}")
    rows, columns = (_wanted(side, wanted) for side in sides.values())
    if not (rows and columns):
        together = ", ".join(f"{axis} {' or '.join(texts)}" for axis, texts in wanted.items())
        raise UsageError(f"study {study.name!r} has nothing with all of these: {together}; ask for fewer")
    return rows, columns


def _rejoined(texts: Sequence[str], values: Sequence[Any]) -> list[str]:
    """Neighbours that are one value together, as one: the longest that are."""
    joined: list[str] = []
    first = 0
    while first < len(texts):
        runs = {", ".join(texts[first:end]): end for end in range(first + 1, len(texts) + 1)}
        found = [text for text in runs if any(_same(value, text) for value in values)]
        joined.append(found[-1] if found else texts[first])
        first = runs[joined[-1]]
    return joined


def _labelled(points: Sequence[Point], side: str) -> dict[Point, dict[str, Any]]:
    return {point: {**point.axes, side: point.label} for point in points}


def _wanted(side: Mapping[Point, Axes], wanted: Mapping[str, Sequence[str]]) -> tuple[Point, ...]:
    """Who asks for a concentration does not ask for the column of shards, which has none."""
    asked = {axis: texts for axis, texts in wanted.items() if any(axis in axes for axes in side.values())}
    return tuple(
        point
        for point, axes in side.items()
        if all(axis in axes and any(_same(axes[axis], text) for text in texts) for axis, texts in asked.items())
    )


def _same(value: Any, text: str) -> bool:
    try:
        return float(text) == float(value)
    except (TypeError, ValueError):
        return text == str(value)


def _read(name: str) -> dict[str, Any]:
    text = (files(__package__) / "data" / f"{name}.yaml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def _points(given: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]) -> tuple[Point, ...]:
    """The product of axes, or a list of points and products; an axis whose values are mappings stands for several."""
    products = [given] if isinstance(given, Mapping) else given
    return tuple(_point(entry) for product in products for entry in _entries(product))


def _entries(product: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every combination of the axes' values; an axis that is no list has one."""
    listed = {axis: values if isinstance(values, list) else [values] for axis, values in product.items()}
    combinations = itertools.product(*([(axis, v) for v in values] for axis, values in listed.items()))
    return [_merged(combination) for combination in combinations]


def _merged(combination: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for axis, value in combination:
        merged |= value if isinstance(value, Mapping) and axis not in NOT_AXES else {axis: value}
    return merged


def _point(entry: Mapping[str, Any]) -> Point:
    axes = {axis: value for axis, value in entry.items() if axis not in NOT_AXES}
    label = entry.get("label") or ", ".join(axis_text(axis, value) for axis, value in axes.items())
    return Point(axes, label, entry.get("set", {}), entry.get("only", {}))


def axis_text(axis: str, value: Any) -> str:
    """`beta 0.05`, but `fedvls`: names speak for themselves."""
    if axis == "first":
        return f"first {value} rounds"
    if axis == "group":
        return f"{value} classes"
    if axis == "scored":
        return f"scored on its {'training' if value == 'train' else 'test'} data"
    if axis == "dataset":
        return str(protocol()["datasets"][value].get("title", value))
    return str(value) if axis in NAMED_BY_VALUE else f"{axis} {value}"


def _published(value: Any) -> Published | None:
    if value is None or isinstance(value, int | float):
        return None if value is None else Published(float(value))
    mean, std = str(value).split("±")
    return Published(float(mean), float(std))
