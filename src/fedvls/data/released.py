"""How the authors' program divides and scores its data, for those who study its numbers. Not for results."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any, Literal

import numpy as np

from ..errors import UsageError
from ..registry import convert
from .federated import FederatedData

log = logging.getLogger("fedvls")


def merge_and_split(data: FederatedData, share: float) -> FederatedData:
    """Training and test samples in one, of which this share, drawn at random, trains and the rest tests.

    The draw depends on the number of samples alone: all runs on a data set see the same split.
    """
    from ..rng import key, permutation

    share = convert(share, float, "data.merged_split")
    if not 0 < share < 1:
        raise UsageError(f"data.merged_split = {share} must be between 0 and 1: the share of the samples that trains")
    if data.clients is not None:
        raise UsageError(f"data.merged_split = {share}, but {data.name} is divided among clients already")
    total = len(data.y_train) + len(data.y_test)
    order = permutation(key(0, "merged split", total), total)
    parts = {"train": np.sort(order[: round(share * total)]), "test": np.sort(order[round(share * total) :])}
    kinds = ("x", "y") if data.domain_train is None else ("x", "y", "domain")
    changes: dict[str, Any] = {}
    for kind in kinds:
        merged = np.concatenate([getattr(data, f"{kind}_train"), getattr(data, f"{kind}_test")])
        changes |= {f"{kind}_{part}": merged[chosen] for part, chosen in parts.items()}
    return _with_spec(data, changes, "merged_split", share)


def evaluate_on(data: FederatedData, part: str) -> FederatedData:
    """The data with their training samples in place of the test set, if `part` is "train". The header says so."""
    part = convert(part, Literal["test", "train"], "data.evaluate_on")
    changes: dict[str, Any] = {}
    if part == "train":
        log.warning("data.evaluate_on = train: every accuracy is on TRAINING samples and says nothing about new ones")
        changes = {"x_test": data.x_train, "y_test": data.y_train, "domain_test": data.domain_train}
        changes["scored_on"] = "train"
    return _with_spec(data, changes, "evaluate_on", part)


def _with_spec(data: FederatedData, changes: dict[str, Any], key: str, value: object) -> FederatedData:
    """The changed data, which remember how to be loaded again."""
    if data.spec is not None:
        changes["spec"] = {**data.spec, key: value}
    return dataclasses.replace(data, **changes)
