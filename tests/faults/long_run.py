"""A long run in a process of its own, watched: `python long_run.py METHOD ENGINE [LEAK]` prints what it held after each
round as JSON.

Of its own, because a process that has run other tests has a heap full of gaps, and a run that fills them page by page
looks like one that grows.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import torch
from support import children, memory, open_files, small_data

import fedvls

ROUNDS = 60
PARAMETERS = 45_000  # of the model, about: 0.18 MiB


class Watch(fedvls.Callback):
    """Memory of the run's processes, their open files and their number, after every round."""

    def __init__(self) -> None:
        self.before = children(os.getpid())
        self.rounds: list[dict[str, float]] = []

    def on_round(self, record, timing):
        workers = sorted(children(os.getpid()) - self.before)
        found = {"parent": memory(os.getpid()), "processes": len(workers), "files": open_files(os.getpid())}
        found |= {f"worker {k}": memory(pid) for k, pid in enumerate(workers)}
        self.rounds.append(found)


class Leak(fedvls.Callback):
    """Holds on to something more after every round."""

    def __init__(self, make: Callable[[], object]) -> None:
        self.make, self.held = make, []

    def on_round(self, record, timing):
        self.held.append(self.make())


class LeakingLoss:
    """Holds on to something more at every minibatch, in whatever process computes it."""

    def __init__(self) -> None:
        self.held: list[torch.Tensor] = []

    def __call__(self, inputs):
        self.held.append(torch.ones(PARAMETERS))
        likely = inputs.logits.log_softmax(-1).gather(-1, inputs.labels.unsqueeze(-1)).squeeze(-1)
        return inputs.over_batch(-likely)


def watched(method: str, engine: str, leak: str) -> list[dict[str, float]]:
    """60 short rounds of four clients, after each of which this is leaked: memory, files, in a loss, or nothing."""
    leaks = {"memory": lambda: torch.ones(PARAMETERS), "files": tempfile.TemporaryFile}
    others = [Leak(leaks[leak])] if leak in leaks else []
    trained: Any = fedvls.Method(fedvls.Term("leaking", LeakingLoss())) if leak == "loss" else method
    watch = Watch()
    fed = fedvls.Federation(small_data(), partition=fedvls.iid(), clients=4, engine=engine, device="cpu")
    fed.run(trained, ROUNDS, 1, batch_size=16, local_every=5, out=None, callbacks=[*others, watch])
    return watch.rounds


if __name__ == "__main__":
    print(json.dumps(watched(*sys.argv[1:3], (*sys.argv[3:], "")[0])))
