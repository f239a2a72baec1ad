"""Runs as one plain value: what the page embeds and the figures are drawn from.

Runs that differ in their seed only form a group: one method in one setting. A setting is everything but the method and
the seed, so that what is compared in one chart was measured under the same conditions.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import RunError
from ..groups import GROUPS, mean_per_class
from ..runs.config import FREE, RunConfig
from ..runs.scores import scores
from ..runs.store import Record, RunDirectory
from .labels import distinct, method_label
from .tables import setting_label

Bundle = dict[str, Any]
CLASSWISE_KEPT = 8
NOT_SETTING = ("method", "seed", "start", "imports", "confusion", "local_every", *FREE)


def collect(runs: Sequence[RunDirectory]) -> Bundle:
    """Everything the page and the figures show; a run without a finished round is named in `empty`."""
    methods, settings, partitions, groups = _Index(), _Index(), _Index(), _Index()
    names = _short_paths([run.path for run in runs])
    shown, empty = [], []
    for run, name in zip(runs, names, strict=True):
        records = run.records()
        if not records:
            empty.append(name)
            continue
        config, header = run.config(), run.header()
        plain = config.to_mapping()
        method = methods.of(plain["method"])
        setting = settings.of({k: _given(v) for k, v in plain.items() if k not in NOT_SETTING})
        held = header["partition"]
        counts = np.asarray(held["counts"])
        class_names = header["data"].get("class_names") or [str(c) for c in range(held["classes"])]
        shown.append(
            {
                "name": name,
                "group": groups.of([method, setting]),
                "seed": config.seed,
                "planned": _planned(config, records, run.is_complete),
                "complete": run.is_complete,
                "partition": partitions.of(
                    {
                        "fingerprint": held["fingerprint"],
                        "data": header["data"]["name"],
                        "name": held["name"],
                        "seed": held["seed"],
                        "vacant_per_client": held["vacant_per_client"],
                        "counts": held["counts"],
                        "class_names": class_names,
                    }
                ),
                **_measured(records, run.timings(), counts),
                "header": _slim(header),
            }
        )
    bundle: Bundle = _rounded(
        {
            "methods": distinct([method_label(m) for m in methods.values], methods.values),
            "settings": distinct([setting_label(s) for s in settings.values], settings.values),
            "groups": [{"method": m, "setting": s} for m, s in groups.values],
            "partitions": partitions.values,
            "runs": shown,
            "empty": empty,
        }
    )
    return bundle


def collect_some(runs: Sequence[RunDirectory]) -> Bundle:
    """`collect`, or an error where there is nothing to show."""
    bundle = collect(runs)
    if not bundle["runs"]:
        raise RunError(f"no finished round in {', '.join(str(run.path) for run in runs) or 'these folders'}")
    return bundle


def _measured(records: Sequence[Record], timings: Sequence[Record], counts: np.ndarray) -> Record:
    """Curves, scores, what local training did, and the clock."""
    curves: dict[str, list[Any]] = {key: [r.get(key) for r in records] for key in ("accuracy", "loss", "train_loss")}
    for part in ("domains", "server"):
        keys = dict.fromkeys(key for r in records for key in r.get(part, {}))
        curves |= {f"{part}.{key}": [r.get(part, {}).get(key) for r in records] for key in keys}
    if any("sites" in r for r in records):  # a deployment whose sites evaluate
        curves["sites.accuracy"] = [r.get("sites", {}).get("accuracy") for r in records]
    local = [r for r in records if "local" in r]
    kept = _thinned([r["round"] for r in local], CLASSWISE_KEPT)
    confusion: Record = {}
    for record in local:
        for client, matrix in record["local"]["confusion"].items():
            confusion[client] = {"round": record["round"], "matrix": matrix}
    timings = timings[: len(records)]
    return {
        "rounds": len(records),
        "curves": curves,
        **scores(curves["accuracy"]),
        "per_class": records[-1]["per_class"],
        "left_out": sum(len(r["left_out"]) for r in records),
        "refused": [
            {"round": r["round"], "who": who, "reason": reason}
            for r in records
            for who, reason in r.get("refused", {}).items()
        ],
        "local": [_effect(r, counts, r["round"] in kept) for r in local],
        "confusion": confusion,
        "seconds": [t["seconds"] for t in timings],
        "samples_per_second": [t["samples_per_second"] for t in timings],
    }


def _effect(record: Record, counts: np.ndarray, with_classes: bool) -> Record:
    """One round's local update: means per group and, for the rounds kept, per class."""
    local = record["local"]
    effect = {
        "round": record["round"],
        "before": local["before"],
        "after": local["after"],
        "drift": local["drift_diversity"],
    }
    if with_classes:
        after = {group: mean_per_class(local["clients"], counts, group).tolist() for group in GROUPS}
        effect["classes"] = {"before": local["before_per_class"], **after}
    return effect


def _thinned(rounds: Sequence[int], most: int) -> set[int]:
    """At most so many of the rounds, evenly spread, the last one always among them."""
    if len(rounds) <= most:
        return set(rounds)
    return {rounds[round(k * (len(rounds) - 1) / (most - 1))] for k in range(most)}


def _given(value: Any) -> Any:
    """A section without its nulls: they say what a missing key says."""
    return {k: v for k, v in value.items() if v is not None} if isinstance(value, dict) else value


def _planned(config: RunConfig, records: Sequence[Record], complete: bool) -> int:
    return len(records) if complete else max(config.rounds, len(records))


def _slim(header: Mapping[str, Any]) -> Record:
    """The header without the tables that `partitions` holds once."""
    slim = {key: dict(value) if isinstance(value, dict) else value for key, value in header.items()}
    for part, keys in (("partition", ("counts", "vacant", "sizes")), ("data", ("class_names",))):
        for key in keys:
            slim[part].pop(key, None)
    return slim


def _short_paths(paths: Sequence[Path]) -> list[str]:
    """The paths without the folder they all share."""
    whole = [str(path.resolve()) for path in paths]
    parents = {str(Path(path).parent) for path in whole}
    shared = os.path.commonpath(parents) if parents else ""
    return [os.path.relpath(path, shared) for path in whole]


def _rounded(value: Any) -> Any:
    """Floats with six digits: more than any of these measurements has, and half the size; NaN becomes null."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if np.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _rounded(inner) for key, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list | tuple) else value


class _Index:
    """Values in order of appearance, each once."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._places: dict[str, int] = {}

    def of(self, value: Any) -> int:
        """The place of this value, a new one if it has none."""
        key = json.dumps(value, sort_keys=True, default=str)
        if key not in self._places:
            self._places[key] = len(self.values)
            self.values.append(value)
        return self._places[key]
