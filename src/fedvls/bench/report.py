"""The outcome of a benchmark: the machine, the workloads, the rows; as a mapping for JSON."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..runs.header import versions
from .plan import Plan
from .rows import Row, ratio
from .targets import TARGETS
from .workloads import Workload

SCHEMA = 1
MEDIANS = ("rate", "train_rate", "share_of_floor", "floor", "accuracy", "peak_memory", "gpu_memory", "processor_share")


@dataclass(frozen=True)
class WorkloadFacts:
    """A workload as it was run."""

    workload: Workload
    data: str
    rounds: int
    partition: str
    """Fingerprint of who had what."""


@dataclass(frozen=True)
class Report:
    """Everything one run measured."""

    machine: dict[str, Any]
    workloads: Sequence[WorkloadFacts]
    rows: Sequence[Row]

    def versions(self) -> dict[str, str]:
        """Of every package that took part."""
        found: dict[str, str] = dict(self.machine["versions"])
        for row in self.rows:
            for measurement in row.measurements:
                for package, version in measurement.versions.items():
                    found.setdefault(package, version)
        return found

    def to_mapping(self) -> dict[str, Any]:
        """Plain values; `rows` hold the medians, and under `measurements` every repetition."""
        return {
            "schema": SCHEMA,
            "machine": {**self.machine, "versions": self.versions()},
            "workloads": [
                {"name": f.workload.name, "data": f.data, "timed_rounds": f.rounds, "partition": f.partition}
                | {k: v for k, v in asdict(f.workload).items() if k not in ("name", "rounds", "partition")}
                for f in self.workloads
            ],
            "rows": [self._row(row) for row in self.rows],
            "targets": [
                {
                    **{key: getattr(target, key) for key in ("text", "workload", "device", "method", "wanted", "unit")},
                    "reached": target.reached(self.rows),
                    "by": None if (best := target.best(self.rows)) is None else best[0].name,
                    "ratio": target.ratio(target.reached(self.rows)),
                    "steady": target.steady(self.rows),
                    "types": {
                        row.dtype: {"reached": value, "by": row.name, "ratio": target.ratio(value)}
                        for row, value in target.best_of_types(self.rows)
                    },
                }
                for target in TARGETS
            ],
        }

    def _row(self, row: Row) -> dict[str, Any]:
        identity = ("workload", "program", "kind", "method", "device", "dtype", "reason")
        return {
            **{key: getattr(row, key) for key in identity},
            **{key: row.middle(key) for key in MEDIANS},
            "steady": row.steady,
            "over_fastest_rival": ratio(self.rows, row, "rival"),
            "over_loop": ratio(self.rows, row, "loop"),
            "setting": row.measurements[0].setting if row.measurements else "",
            "measurements": [asdict(measurement) for measurement in row.measurements],
        }


def machine(plan: Plan) -> dict[str, Any]:
    """Where it ran."""
    found: dict[str, Any] = {"system": platform.platform(), "cpu": cpu_name(), "cores": plan.cores, "gpu": None}
    if plan.device == "cuda":
        import torch

        found["gpu"] = torch.cuda.get_device_name()
    return {**found, "versions": versions()}


def cpu_name(listing: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name as the system tells it."""
    try:
        lines = listing.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
