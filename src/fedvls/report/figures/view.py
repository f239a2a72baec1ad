"""The part of a bundle that one figure shows: the methods of one setting, each with its runs and its look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import RunError, UsageError
from ..bundle import Bundle
from ..palette import DASHES, LIGHT, MARKERS

Run = dict[str, Any]


@dataclass(frozen=True)
class Group:
    """One method's runs; `style` is the method's number, which fixes its colour, dash and marker everywhere."""

    label: str
    style: int
    runs: list[Run]

    @property
    def name(self) -> str:
        """The label, as much of it as a figure has room for."""
        return clipped(self.label)

    @property
    def colour(self) -> str:
        return LIGHT[self.style % len(LIGHT)]

    @property
    def dash(self) -> Any:
        dash = DASHES[self.style % len(DASHES)]
        return (0, dash) if dash else "-"

    @property
    def marker(self) -> str:
        return MARKERS[self.style % len(MARKERS)]


@dataclass(frozen=True)
class View:
    """What a figure is drawn from."""

    setting: str
    groups: list[Group]
    partitions: list[dict[str, Any]]
    seed: int
    client: str | None = None

    def partition(self) -> dict[str, Any]:
        """The partition of the seed shown; of a simulated and a deployed run, the one whose counts are known."""
        runs = [run for group in self.groups for run in group.runs if run["seed"] == self.seed]
        held = [self.partitions[run["partition"]] for run in runs]
        return next((one for one in held if one["counts"]), held[0])

    def confusion(self) -> tuple[str, list[tuple[Group, Run]]]:
        """The client, and the runs of the seed shown that recorded its matrix."""
        found = [
            (group, run) for group in self.groups for run in group.runs if run["seed"] == self.seed and run["confusion"]
        ]
        clients = sorted({client for _, run in found for client in run["confusion"]}, key=int)
        client = self.client if self.client is not None else next(iter(clients), None)
        found = [(group, run) for group, run in found if client in run["confusion"]]
        if not clients and all(is_deployed(run) for group in self.groups for run in group.runs):
            raise RunError("no confusion matrix in a deployment: the sites send none")
        if client is None or not found:
            who = "any client" if client is None else f"client {client}"
            recorded = f"; recorded: {', '.join(clients)}" if clients else ""
            raise RunError(
                f"no confusion matrix of {who} with seed {self.seed}{recorded}; "
                f"record it with: fedvls run --confusion {client or 0}"
            )
        return client, found


def view_of(bundle: Bundle, setting: int | None = None, seed: int | None = None, client: int | None = None) -> View:
    """The methods of one setting (settings are numbered from 1), and the seed that single-run figures show."""
    names = bundle["settings"]
    if setting is None:
        if len(names) > 1:
            listed = "; ".join(f"{k}: {name}" for k, name in enumerate(names, 1))
            raise UsageError(f"these runs have {len(names)} settings; choose one with --setting: {listed}")
        setting = 1
    if not 1 <= setting <= len(names):
        raise UsageError(f"--setting {setting} must be from 1 to {len(names)}")
    groups = [
        Group(bundle["methods"][group["method"]], group["method"], [r for r in bundle["runs"] if r["group"] == place])
        for place, group in enumerate(bundle["groups"])
        if group["setting"] == setting - 1
    ]
    seeds = sorted({run["seed"] for group in groups for run in group.runs})
    if seed is not None and seed not in seeds:
        raise UsageError(f"--seed {seed}: these runs have {', '.join(map(str, seeds))}")
    chosen = seeds[0] if seed is None else seed
    return View(names[setting - 1], groups, bundle["partitions"], chosen, None if client is None else str(client))


def is_deployed(run: Run) -> bool:
    """Whether the run's clients are real sites, which keep what they know of their classes."""
    return "deployment" in run["header"]


def clipped(text: str, most: int = 24) -> str:
    """The text, or its beginning and an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def mean_known(values: Sequence[Any]) -> float | None:
    """Mean of what was measured; None where nothing was."""
    there = [float(v) for v in values if v is not None]
    return sum(there) / len(there) if there else None


def band_of(
    runs: Sequence[Run], points: Callable[[Run], Sequence[tuple[int, float]]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rounds, mean, lowest and highest over the runs that reached the round."""
    by_round: dict[int, list[float]] = {}
    for run in runs:
        for place, value in points(run):
            by_round.setdefault(place, []).append(value)
    rounds = np.array(sorted(by_round))
    values = [by_round[place] for place in rounds]
    mean, low, high = (np.array([f(v) for v in values]) for f in (np.mean, np.min, np.max))
    return rounds, mean, low, high
