"""What came back in a round."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flwr.app import MetricRecord

from ..aggregation import ServerOutputs
from ..engines.base import Update
from .messages import SAMPLES


@dataclass(frozen=True)
class Answers:
    """Training answers: the updates that count, by site number, and why the others do not."""

    asked: tuple[int, ...] = ()
    """Nodes that were sent the model."""
    updates: Sequence[Update] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    """`site 2` (or `node 7...` if it never told its number) -> reason."""
    outputs: ServerOutputs | None = None

    @property
    def left_out(self) -> list[int]:
        """Numbers of the sites whose update does not count."""
        numbers = [name.removeprefix("site ") for name in self.refused if name.startswith("site ")]
        accepted = {u.client for u in self.updates}
        return sorted({int(number) for number in numbers} - accepted)

    @property
    def cohort(self) -> list[int]:
        return sorted({*self.left_out, *(u.client for u in self.updates)})

    def reasons(self) -> str:
        return "; ".join(f"{name}: {reason}" for name, reason in self.refused.items())


@dataclass
class SiteScores:
    """Evaluations at the sites, in one round."""

    sites: dict[int, dict[str, Any]] = field(default_factory=dict)

    def add(self, site: int, metrics: MetricRecord, most: int) -> None:
        """One site's accuracy and loss; values that cannot be are left out."""
        accuracy, loss, samples = (metrics.get(key) for key in ("accuracy", "loss", SAMPLES))
        if not isinstance(samples, int) or not 1 <= samples <= most:
            return
        if isinstance(accuracy, float) and 0 <= accuracy <= 1 and isinstance(loss, float) and math.isfinite(loss):
            self.sites[site] = {"accuracy": accuracy, "loss": loss, "samples": samples}

    def mean(self) -> MetricRecord | None:
        """Over samples; None where nobody answered."""
        if not self.sites:
            return None
        whole = sum(s["samples"] for s in self.sites.values())
        return MetricRecord(
            {k: sum(s[k] * s["samples"] for s in self.sites.values()) / whole for k in ("accuracy", "loss")}
        )

    def record(self) -> dict[str, Any]:
        """For metrics.jsonl."""
        mean = self.mean()
        clients = [{"client": site, **self.sites[site]} for site in sorted(self.sites)]
        return {"accuracy": mean["accuracy"], "loss": mean["loss"], "clients": clients} if mean else {"clients": []}
