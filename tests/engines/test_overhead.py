"""What a round does beside its steps: on a GPU every operation costs microseconds to launch and every number that the
host reads costs a wait, so neither may come with every tensor of every client."""

from __future__ import annotations

from collections import Counter
from functools import partial, partialmethod

import pytest
import torch
from support import batch_norm_net, small_mlp
from torch.utils._python_dispatch import TorchDispatchMode

import fedvls
from fedvls.engines import choice, stacked
from fedvls.engines.stack import Stack
from fedvls.engines.stacked import StackedEngine

FEW, MANY = 6, 24  # clients of five samples each
WAITS = ("_local_scalar_dense", "nonzero", "bincount", "masked_select")


class Counting(TorchDispatchMode):
    """Operations that launch something, while `on`; among them those that make the host wait for a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.on, self.operations, self.waits = False, Counter(), Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if self.on and not func.is_view and "empty" not in str(func):
            self.operations[str(func)] += 1
            self.waits[str(func)] += any(wait in str(func) for wait in WAITS)
        return func(*args, **(kwargs or {}))


@pytest.fixture
def counted(monkeypatch):
    """Counts of one round of a cohort that trains as a single stack, as on a GPU; its steps are left out."""
    monkeypatch.setitem(choice.ENGINES, "stacked", StackedEngine)
    monkeypatch.setattr(stacked, "clients_that_fit", lambda *_: MANY)
    mode = Counting()
    step = Stack._step

    def uncounted(*args):
        before, mode.on = mode.on, False
        step(*args)
        mode.on = before

    monkeypatch.setattr(Stack, "_step", uncounted)

    def reading(name, read, tensor):
        mode.waits[name] += mode.on
        return read(tensor)

    for name in ("cpu", "tolist"):  # on a CPU these are no operations
        read = partialmethod(partial(reading, name, getattr(torch.Tensor, name)))
        monkeypatch.setattr(torch.Tensor, name, read)

    class Third(fedvls.Callback):
        def on_round(self, record, timing):
            mode.on = record["round"] == 2

    def count(data, method, model, cohort, **more):
        mode.operations, mode.waits = Counter(), Counter()
        fed = fedvls.Federation(data, partition=fedvls.iid(), clients=MANY, model=model, engine="stacked", device="cpu")
        more = {"local_every": 100, "participation": cohort / MANY, **more}
        with mode:
            fed.run(method, 4, 1, batch_size=2, lr=0.001, out=None, callbacks=[Third()], **more)
        return mode.operations, +mode.waits

    return count


@pytest.mark.parametrize(
    ("method", "model", "bound"),
    [
        ("fedavg", small_mlp, 3),  # a client's model is converted, weighted and added
        ("fedavg", batch_norm_net, 7),  # its running statistics too, and its counters of batches are moved
        ("fednova", small_mlp, 3),
        ("fedexp", small_mlp, 13),  # also taken from the model before; a norm is a sum per tensor, of which there are 6
        ("scaffold", small_mlp, 8),  # also its mean gradient (2), its control variate (2) and the change of that (1)
        ("feddyn", small_mlp, 8),
    ],
)
def test_a_client_more_is_a_few_operations_more(stripes, counted, method, model, bound):
    few, many = (counted(stripes, method, model(), cohort)[0] for cohort in (FEW, MANY))
    assert few.total() > 0
    grown = many - few
    assert grown.total() <= bound * (MANY - FEW), dict(grown.most_common())


@pytest.mark.parametrize("more", [{}, {"local_every": 1}], ids=["global", "local"])
@pytest.mark.parametrize("method", ["fedavg", "fedvls", "fedexp", "scaffold", "moon", "fpl", "fedgf"])
def test_the_host_waits_a_few_times_a_round_whatever_the_number_of_clients(stripes, counted, method, more):
    """For the losses, for whether updates are finite, for the test set; in some rounds or methods for norms."""
    few, many = (counted(stripes, method, small_mlp(), cohort, **more)[1] for cohort in (FEW, MANY))
    assert few == many
    assert 3 <= many.total() <= 8
