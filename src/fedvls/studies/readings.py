"""How a number is read from the metrics of a run. Accuracies in percent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from ..errors import RunError
from ..runs.scores import scores
from ..runs.store import Record
from .study import Axes

Rounds = Sequence[Record]
Counts = Sequence[Sequence[int]]


class Reading(NamedTuple):
    """What a number is read from."""

    records: Rounds
    axes: Axes
    score: str
    counts: Counts
    """Samples per client and class."""


def readable(kind: str, records: Rounds) -> Rounds:
    """The rounds up to the last one that such a number can be read from: not all of them evaluate clients' models."""
    if kind not in OF_CLIENTS:
        return records
    return records[: max((place for place, record in enumerate(records, 1) if "local" in record), default=0)]


def read_value(
    kind: str,
    records: Rounds,
    axes: Axes,
    score: str,
    full_rounds: int,
    planned: int | None = None,
    counts: Counts = (),
) -> float:
    """The number at `axes`, not a number where the run has none. `counts` are the samples per client and class.

    A run that has not come so far as the `first` rounds that are asked for has no number; `planned` are the rounds the
    run is to have (by default as many as there are).
    """
    if "first" in axes:
        asked = rounds_asked(axes, full_rounds, planned or len(records))
        records = records[:asked] if len(records) >= asked else []
    if not records:
        return float("nan")
    return READINGS[kind](Reading(records, axes, score, counts))


def rounds_asked(axes: Axes, full_rounds: int, planned: int) -> int:
    """How many rounds of a run count: all that are planned, or the `first` so many of the paper's `full_rounds`, and
    the same share of a run of which fewer are planned."""
    return max(1, round(planned * axes["first"] / full_rounds)) if "first" in axes else planned


def _accuracy(of: Reading) -> float:
    return 100 * float(scores([r["accuracy"] for r in of.records])[of.score])


def _domain(of: Reading) -> float:
    """A domain's accuracy in the rounds that the score selects by the mean over domains."""
    if of.axes["domain"] not in of.records[-1]["domains"]:
        return float("nan")
    chosen = _selected(of.records, [r["domains"]["mean"] for r in of.records], of.score)
    return 100 * sum(float(r["domains"][of.axes["domain"]]) for r in chosen) / len(chosen)


def _selected(records: Rounds, curve: Sequence[float], score: str) -> Rounds:
    """The rounds that the score takes, where `curve` decides which is best."""
    best = int(scores(list(curve))["best_round"]) - 1
    return {"best": records[best : best + 1], "last": records[-1:], "mean_last_five": records[-5:]}[score]


def _on_classes(measure: Callable[[Counts], Sequence[float]], of: Reading) -> float:
    """Mean accuracy of the classes of which the measure is at least `least` and below `below`."""
    chosen = [c for c, value in enumerate(measure(of.counts)) if of.axes["least"] <= value < of.axes["below"]]
    if not chosen:
        return float("nan")
    rounds = _selected(of.records, [r["accuracy"] for r in of.records], of.score)
    return 100 * sum(float(r["per_class"][c]) for r in rounds for c in chosen) / (len(rounds) * len(chosen))


def mean_priors(counts: Counts) -> list[float]:
    """Of every class, the prior that its samples find at their client, on average; 0 for a class nobody has.

    With n_kc samples of class c at client k the prior of class c there is n_kc / n_k, and its mean over the samples of
    the class is sum_k n_kc (n_kc / n_k) / sum_k n_kc: near 1 for a class that is nearly alone at its clients.
    """
    totals = [sum(own) for own in counts]
    found = []
    for of_class in zip(*counts, strict=True):
        priors = [n * n / total for n, total in zip(of_class, totals, strict=True) if n]
        found.append(sum(priors) / sum(of_class) if priors else 0.0)
    return found


def largest_shares(counts: Counts) -> list[float]:
    """Of every class, the share of its samples at the client that has most of them; 0 for a class nobody has."""
    return [max(of_class) / max(sum(of_class), 1) for of_class in zip(*counts, strict=True)]


def _drift(of: Reading) -> float:
    value = of.records[-1]["local"]["drift_diversity"]
    return float("nan") if value is None else float(value)


def _client_class(of: Reading) -> float:
    """One client's model after its last update (or the model it was sent), on one class."""
    local = of.records[-1]["local"]
    if of.axes["class"] == "aggregated":
        before = sum(local["before_per_class"]) / len(local["before_per_class"])
        return 100 * float(before if of.axes.get("moment") == "before" else of.records[-1]["accuracy"])
    if of.axes.get("moment") == "before":
        return _of_class(local["before_per_class"], of.axes)
    for entry in local["clients"]:
        if entry["client"] == of.axes["client"]:
            return _of_class(entry["per_class"], of.axes)
    raise RunError(f"client {of.axes['client']} did not take part in the last round")


def _class(of: Reading) -> float:
    """The global model on one class in the last round, or the mean over its clients' models."""
    if of.axes["moment"] == "aggregated":
        return _of_class(of.records[-1]["per_class"], of.axes)
    clients = [_of_class(entry["per_class"], of.axes) for entry in of.records[-1]["local"]["clients"]]
    return sum(clients) / len(clients)


def _group(of: Reading) -> float:
    """Mean over clients of the accuracy on the classes that each has none, few or many of."""
    value = of.records[-1]["local"][of.axes["moment"]][of.axes["group"]]
    return float("nan") if value is None else 100 * float(value)


def _confusion(of: Reading) -> float:
    matrix = of.records[-1]["local"]["confusion"][str(of.axes["client"])]
    return float(matrix[of.axes["actual"]][of.axes["predicted"]])


def _of_class(per_class: Sequence[float], axes: Axes) -> float:
    chosen: Any = axes["class"]
    return 100 * float(sum(per_class) / len(per_class) if chosen == "average" else per_class[chosen])


# These read the models of clients, which are evaluated in some rounds and in the last.
OF_CLIENTS = ("drift", "client-class", "class", "group", "confusion")
# These are of the global model, in the rounds that the score selects.
SCORED = ("accuracy", "domain", "prior", "holder")
# These need to know who had which classes.
OF_PARTITION = ("prior", "holder")
READINGS: dict[str, Callable[[Reading], float]] = {
    "accuracy": _accuracy,
    "domain": _domain,
    "prior": partial(_on_classes, mean_priors),
    "holder": partial(_on_classes, largest_shares),
    "drift": _drift,
    "client-class": _client_class,
    "class": _class,
    "group": _group,
    "confusion": _confusion,
}
