"""What stacks know of their clients' labels: where a captured step looks for it, whoever the clients are."""

from __future__ import annotations

import torch

from fedvls.engines.statistics import StackStatistics
from fedvls.losses import ClientStatistics
from fedvls.losses.calibration import LogPrior, Restriction
from fedvls.losses.distillation import vacant

TABLES = (LogPrior(0.0), Restriction(0.5, "soft"), vacant)


def test_tables_of_other_clients_lie_where_the_last_ones_did():
    first, second = torch.tensor([[4.0, 0.0, 2.0], [1.0, 1.0, 0.0]]), torch.tensor([[0.0, 0.0, 7.0], [3.0, 9.0, 1.0]])
    statistics = StackStatistics(first)
    own = statistics.of(slice(1, 2))
    held = [own.table(made) for made in TABLES]
    statistics.update(second)
    for made, table in zip(TABLES, held, strict=True):
        assert torch.equal(table, made(ClientStatistics(second[1:])))
        assert own.table(made).data_ptr() == table.data_ptr()


def test_equal_tables_are_computed_once():
    client = ClientStatistics(torch.tensor([4.0, 0.0, 2.0]))
    assert client.table(LogPrior(1e-9)) is client.table(LogPrior(1e-9))
    assert len(client.tables) == 1
