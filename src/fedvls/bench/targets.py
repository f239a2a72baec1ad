"""The targets of the engines, and how far this run comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .rows import Row, ratio

RELEASED_PROGRAM = 1_525
"""Samples per second of the FedVLS authors' program on an H200: CIFAR-10, MobileNetV2, six loader workers."""
PAPER_SAMPLES = 15_000_000
"""MNIST in the paper: 60,000 samples, 5 epochs, 50 rounds."""
PUBLIC_ROUNDS = 1_500


@dataclass(frozen=True)
class Target:
    """A number to reach on a workload and device."""

    text: str
    workload: str
    device: str
    method: str
    measure: Callable[[Sequence[Row], Row], float | None]
    """From all rows and one of ours."""
    wanted: float | None
    """None: a number that is only stated."""
    unit: str
    smaller_is_better: bool = False
    engine: str | None = None
    """The engine it is meant for, if not any."""

    def best(self, rows: Sequence[Row]) -> tuple[Row, float] | None:
        """Our row that comes furthest, and its value; None if the work was not measured."""
        ours = [row for row in self._same_work(rows) if row.kind == "ours" and self.engine in (None, row.program)]
        found = [(row, value) for row in ours if row.rate and (value := self.measure(rows, row)) is not None]
        sign = -1 if self.smaller_is_better else 1
        return max(found, key=lambda pair: sign * pair[1], default=None)

    def best_of_types(self, rows: Sequence[Row]) -> list[tuple[Row, float]]:
        """Of each type that we were measured in our row that comes furthest, and its value: other programs and the
        loop compute in float32, and what a shorter type reaches beside them has to be told apart."""
        types = dict.fromkeys(row.dtype for row in self._same_work(rows) if row.kind == "ours")
        found = (self.best([row for row in rows if row.kind != "ours" or row.dtype == each]) for each in types)
        return [best for best in found if best is not None]

    def reached(self, rows: Sequence[Row]) -> float | None:
        """The value of our best row; None if the work was not measured."""
        best = self.best(rows)
        return None if best is None else best[1]

    def steady(self, rows: Sequence[Row]) -> bool:
        """Whether the machine was steady for everyone who did this work: a ratio needs both of its sides."""
        return all(row.steady for row in self._same_work(rows))

    def _same_work(self, rows: Sequence[Row]) -> list[Row]:
        work = (self.workload, self.device, self.method)
        return [row for row in rows if (row.workload, row.device, row.method) == work]

    def ratio(self, value: float | None) -> float | None:
        """Reached over wanted, above 1 where the target is met; None if either is missing."""
        if value is None or self.wanted is None:
            return None
        return self.wanted / value if self.smaller_is_better else value / self.wanted


def _rate(rows: Sequence[Row], row: Row) -> float | None:
    return row.rate


def _share(rows: Sequence[Row], row: Row) -> float | None:
    share = row.middle("share_of_floor")
    return None if share is None else 100 * share


def _over_loop(rows: Sequence[Row], row: Row) -> float | None:
    return ratio(rows, row, "loop")


def _over_rival(rows: Sequence[Row], row: Row) -> float | None:
    return ratio(rows, row, "rival")


def _over_released(rows: Sequence[Row], row: Row) -> float | None:
    return None if row.rate is None else row.rate / RELEASED_PROGRAM


def _paper_run(rows: Sequence[Row], row: Row) -> float | None:
    return None if row.rate is None else PAPER_SAMPLES / row.rate


def _public_run(rows: Sequence[Row], row: Row) -> float | None:
    if not row.measurements:
        return None
    seconds, rounds = row.middle("seconds"), row.middle("rounds")
    return None if not seconds or not rounds else PUBLIC_ROUNDS * seconds / rounds


MLP, MOBILE, PUBLIC = "mnist-mlp", "cifar10-mobilenetv2", "cifar10-pfl"

TARGETS = (
    Target("FedVLS over the DataLoader loop with teacher", MLP, "cpu", "fedvls", _over_loop, 5, "x"),
    Target("FedVLS of the GEMM floor", MLP, "cpu", "fedvls", _share, 60, "%"),
    Target("FedAvg of the GEMM floor", MLP, "cpu", "fedavg", _share, 60, "%"),
    Target("FedAvg over the fastest rival", MLP, "cpu", "fedavg", _over_rival, 2, "x"),
    Target("FedVLS, graphed", MOBILE, "cuda", "fedvls", _rate, 20_000, "samples/s", engine="graphed"),
    Target("FedVLS, kernels of our own", MOBILE, "cuda", "fedvls", _rate, 60_000, "samples/s"),
    Target("FedVLS over the released program (1,525 samples/s)", MOBILE, "cuda", "fedvls", _over_released, 13, "x"),
    Target("the paper's whole run, 50 rounds", MLP, "cuda", "fedvls", _paper_run, 15, "s", smaller_is_better=True),
    Target(
        "1,500 rounds (pfl's claim: 7 to 72 times as fast as others)",
        PUBLIC,
        "cuda",
        "fedavg",
        _public_run,
        None,
        "s",
        smaller_is_better=True,
    ),
    Target("FedAvg over the fastest rival", PUBLIC, "cuda", "fedavg", _over_rival, None, "x"),
)
