"""What is run: the choices of one benchmark, checked, and the rows they make."""

from __future__ import annotations

import sys
import typing
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..engines import ENGINES
from ..engines.parallel import cores
from ..errors import UsageError, unknown
from ..runs.config import RunConfig
from .environments import RIVALS
from .rows import Row
from .workloads import METHODS, Workload, get_workload

LOOP = "DataLoader loop"


@dataclass(frozen=True)
class Plan:
    """The choices of one run of `fedvls bench`."""

    workloads: Sequence[str] = ("mnist-mlp",)
    methods: Sequence[str] = METHODS
    engines: Sequence[str] = ()
    """Default: all there are."""
    rivals: Sequence[str] = ()
    loop: bool = True
    device: str = "cpu"
    dtypes: Sequence[str] = ("float32",)
    """Of our rows."""
    rounds: int | None = None
    repeat: int = 1
    samples: int | None = None
    dataset: str | None = None
    data_dir: str | None = None
    cache: Path = Path("~/.cache/fedvls/bench")
    floor_seconds: float = 1.0
    """How long the floor is measured, before and after every row; 0: not at all."""
    limit: float = 1200
    """Seconds without a word after which a program is given up."""
    seed: int = 0

    def __post_init__(self) -> None:
        for workload in self.workloads:
            get_workload(workload)
        dtypes = typing.get_args(typing.get_type_hints(RunConfig)["dtype"])
        _all_known("method", self.methods, METHODS)
        _all_known("engine", self.engines, ("auto", *ENGINES))
        _all_known("rival", self.rivals, RIVALS)
        _all_known("dtype", self.dtypes, dtypes)
        for name, least in (("rounds", 1), ("repeat", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"--{name} {value} must be >= {least}")
        self.chosen()

    def chosen(self) -> list[tuple[Workload, int]]:
        """Each workload at its size, with its number of timed rounds."""
        found = [get_workload(name) for name in self.workloads]
        return [(w.scaled(self.samples), self.rounds or w.default_rounds(self.device)) for w in found]

    def rows(self, workload: Workload) -> list[Row]:
        """What is measured on a workload: for each method the loop, the rivals that have it, our engines."""
        rows = []
        for method in self.methods:
            work: dict[str, Any] = {"workload": workload.name, "method": method, "device": self.device}
            if self.loop:
                rows.append(Row(program=LOOP, kind="loop", **work))
            if method == "fedavg":
                rows += [Row(program=name, kind="rival", **work) for name in self.rivals]
            for engine in self.engines or ENGINES:
                rows += [Row(program=engine, kind="ours", dtype=dtype, **work) for dtype in self.dtypes]
        return rows

    @property
    def cores(self) -> int:
        return cores()

    def command(self, row: Row, settings: Path, python: Path | None = None) -> list[str]:
        """How the row's program is started; `python` is a rival's own."""
        if row.kind == "rival":
            return [str(python or sys.executable), str(RIVALS[row.program].script), str(settings)]
        module = "fedvls.bench.ours" if row.kind == "ours" else "fedvls.bench.loop"
        return [sys.executable, "-m", module, str(settings)]


def _all_known(kind: str, given: Iterable[str], known: Iterable[str]) -> None:
    names = list(known)
    for name in given:
        if name not in names:
            raise unknown(kind, name, names)
