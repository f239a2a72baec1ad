"""Whether a method trains clients side by side as it trains them one by one: tried on two made-up ones.

A loss or a step that a user wrote for one client may fail on a stack of them, or worse, train on and mix them or count
padding. The trial looks at the method alone: its network and data are small, so it takes a moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from .. import rng
from ..augment import get_augmentation
from ..data import FederatedData
from ..data.resident import ResidentData
from ..losses.term import as_objective
from ..models.init import build_with_seed
from ..models.mlp import Mlp
from ..models.network import Network
from ..numerics import repeatable
from .base import ClientTask, Engine, RoundJob, Update
from .sequential import SequentialEngine
from .stacked import StackedEngine

CPU = torch.device("cpu")
SIZES = (11, 6)
BATCH = 4
"""Neither size is a multiple of it: both clients' last minibatches are padded."""
ROUNDS = 2
"""In the second, clients have what they kept."""
TOLERANCE = 1e-6


def why_one_by_one(job: RoundJob, classes: int) -> str | None:
    """What keeps this method's clients from being trained side by side, if anything does.

    The package's own losses and steps are held to it by tests; only what comes from elsewhere is tried, because the
    sequential engine's optimizer takes PyTorch a second to import.
    """
    parts = [*(term.function for term in as_objective(job.method.objective).terms), job.method.step.direction]
    return None if all(_is_ours(part) for part in parts) else rehearsed(job, classes)


def _is_ours(part: object) -> bool:
    return str(getattr(part, "__module__", "")).startswith("fedvls.")


def rehearsed(job: RoundJob, classes: int) -> str | None:
    """What went wrong with two clients side by side; None if nothing did, or if the method fails for one client too,
    for which the run itself will give the reason."""
    network = Network(build_with_seed(lambda: Mlp(3, (5,), classes), 0), classes)
    data = ResidentData(_made_up(classes), CPU, torch.float64)
    engines = [kind(network, data, get_augmentation("none")) for kind in (SequentialEngine, StackedEngine)]
    recipe = replace(job.recipe, epochs=2, batch_size=BATCH, max_steps=None)
    small = replace(job, start=network.start(CPU, torch.float64), recipe=recipe, broadcast={})
    with repeatable(CPU, torch.get_num_threads(), "float64"), rng.torch_draws(CPU, 0, "trial"):
        try:
            alone = list(_trained(engines[0], small, data, classes))
        except Exception:
            return None
        try:
            together = list(_trained(engines[1], small, data, classes))
        except Exception as error:
            return f"its loss or step fails with several clients at once ({' '.join(str(error).split())[-120:]})"
    if all(_alike(one, other) for one, other in zip(alone, together, strict=True)):
        return None
    return "its loss or step comes to something else with several clients at once than with one"


def _made_up(classes: int) -> FederatedData:
    """Each client has classes that the other lacks, if there are enough."""
    draw, half = rng.key(0, "trial"), max(classes // 2, 1)
    x = rng.normal(draw, (sum(SIZES), 3))
    y = np.concatenate([np.arange(SIZES[0]) % half, classes - 1 - np.arange(SIZES[1]) % half])
    return FederatedData.from_arrays(x, y, x, y, classes=classes)


def _trained(engine: Engine, job: RoundJob, data: ResidentData, classes: int) -> Iterator[Update]:
    """Both clients' updates of all rounds, always from the same start."""
    where = torch.split(torch.arange(sum(SIZES)), list(SIZES))
    counts = [torch.bincount(data.y_train[own], minlength=classes).double() for own in where]
    tasks = [ClientTask(client, own, count) for client, (own, count) in enumerate(zip(where, counts, strict=True))]
    for round in range(1, ROUNDS + 1):
        updates = engine.train(replace(job, round=round), tasks)
        yield from updates
        tasks = [replace(task, kept=update.kept) for task, update in zip(tasks, updates, strict=True)]


def _alike(one: Update, other: Update) -> bool:
    return all(
        mine.keys() == theirs.keys() and _close(list(mine.values()), [theirs[name] for name in mine])
        for mine, theirs in ((one.state.params, other.state.params), (one.sent, other.sent), (one.kept, other.kept))
    ) and _close([torch.tensor(one.loss)], [torch.tensor(other.loss)])


def _close(mine: Sequence[Tensor], theirs: Sequence[Tensor]) -> bool:
    return all(
        a.shape == b.shape and torch.allclose(a.double(), b.double(), rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
        for a, b in zip(mine, theirs, strict=True)
    )
