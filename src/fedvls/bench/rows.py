"""A row of the table: one program on one workload with one method, and what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Literal

Kind = Literal["ours", "loop", "rival"]

STEADY_WITHIN = 1.25
LEAST_PROCESSOR_SHARE = 0.9
MOST_IN_PAUSE = 0.2


@dataclass(frozen=True)
class Measurement:
    """One run of a program."""

    samples: int
    seconds: float
    """Of the timed rounds, averaging and evaluation included."""
    train_seconds: float | None
    """Of local training alone, where the program tells."""
    accuracy: float
    """On the test set, after the last round."""
    rounds: int
    setting: str = ""
    """How it ran, in the program's own words."""
    peak_memory: int | None = None
    """Bytes, all its processes together."""
    gpu_memory: int | None = None
    floors: tuple[float, ...] = ()
    """Samples per second of the matrix products alone, before and after the timed rounds."""
    processor_share: float | None = None
    """The least share of its cores that the floor got: below 1 where others used the machine."""
    computed_in_pause: float = 0.0
    """Cores the program kept busy while it should have waited: work off the clock, and cores taken from the floor."""
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Samples per second over whole rounds."""
        return self.samples / self.seconds

    @property
    def train_rate(self) -> float | None:
        return None if not self.train_seconds else self.samples / self.train_seconds

    @property
    def floor(self) -> float | None:
        return sum(self.floors) / len(self.floors) if self.floors else None

    @property
    def steady(self) -> bool:
        """Whether the floor can be believed: alike before and after, with the cores to itself, and not exceeded."""
        if not self.floors or self.processor_share is None:
            return True
        alike = max(self.floors) <= STEADY_WITHIN * min(self.floors) and self.computed_in_pause <= MOST_IN_PAUSE
        return alike and self.processor_share >= LEAST_PROCESSOR_SHARE and (self.share_of_floor or 0) <= 1

    @property
    def share_of_floor(self) -> float | None:
        return None if not self.floor else self.rate / self.floor


@dataclass(frozen=True)
class Row:
    """A program, a workload, a method; the measurements, or the reason why there are none."""

    workload: str
    program: str
    kind: Kind
    method: str
    device: str
    dtype: str = "float32"
    measurements: tuple[Measurement, ...] = ()
    reason: str = ""

    @property
    def name(self) -> str:
        """What the table calls it."""
        return f"{self.program} {self.method}" + ("" if self.dtype == "float32" else f" {self.dtype}")

    def with_measurement(self, measurement: Measurement) -> Row:
        return replace(self, measurements=(*self.measurements, measurement))

    def middle(self, key: str) -> float | None:
        """The median of a number over the repetitions; None if it was not measured."""
        values = [value for m in self.measurements if (value := getattr(m, key)) is not None]
        return median(values) if values else None

    @property
    def rate(self) -> float | None:
        return self.middle("rate")

    @property
    def steady(self) -> bool:
        """Whether the machine was steady in every repetition."""
        return all(measurement.steady for measurement in self.measurements)


def fastest(rows: Iterable[Row]) -> Row | None:
    """The row with the highest rate, if any was measured."""
    measured = [row for row in rows if row.rate is not None]
    return max(measured, key=lambda row: row.rate or 0, default=None)


def comparable(rows: Sequence[Row], row: Row, kind: Kind) -> list[Row]:
    """Rows of this kind that did the same work."""
    work = (row.workload, row.method, row.device)
    return [other for other in rows if other.kind == kind and (other.workload, other.method, other.device) == work]


def ratio(rows: Sequence[Row], row: Row, kind: Kind) -> float | None:
    """How many times as fast as the fastest row of this kind that did the same work."""
    best = fastest(comparable(rows, row, kind))
    return None if best is None or not best.rate or row.rate is None else row.rate / best.rate
