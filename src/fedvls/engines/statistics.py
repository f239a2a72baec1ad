"""Label statistics of a stack's clients at fixed places in memory: derived once per round, not in every step."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ..losses.term import ClientStatistics, Table


class StackStatistics:
    """The statistics of all clients of a stack. What a loss asks for is kept, and brought up to date in place, so that
    a captured step finds it where it was."""

    def __init__(self, counts: Tensor) -> None:
        self.all = ClientStatistics(counts.clone())

    def update(self, counts: Tensor) -> None:
        """Take the counts of other clients."""
        fresh = ClientStatistics(counts)
        for made, held in self.all.tables.items():
            held.copy_(fresh.table(made))
        for name, held in vars(self.all).items():
            if name != "tables":
                held.copy_(getattr(fresh, name))

    def of(self, own: slice) -> ClientStatistics:
        """The statistics of some of the clients."""
        return _Some(self.all.counts[own], self.all, own)


@dataclass(frozen=True)
class _Some(ClientStatistics):
    all: ClientStatistics
    own: slice

    def __getattribute__(self, name: str) -> object:
        if name in ("vacant", "prior", "majority", "log_prior"):
            return getattr(self.all, name)[self.own]
        return super().__getattribute__(name)

    def table(self, made: Table) -> Tensor:
        return self.all.table(made)[self.own]
