"""Who trains whom: a cohort in shares that take worker processes about equally long."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .base import ClientTask

TOGETHER = 0.5
"""What a step of a stack takes beside its clients, in units of what it takes for each of them: of an MLP on a CPU 0.4
for FedAvg and 0.7 for FedVLS."""

Share = list[ClientTask]


def balanced(cohort: Sequence[ClientTask], workers: int, together: float = 0.0) -> list[Share]:
    """The largest client first, to whoever has least; then clients change places while that makes the slowest faster.

    A share takes as long as it has samples, and `together` times its largest client's on top.
    """
    shares: list[Share] = [[] for _ in range(workers)]
    load = [0.0] * workers
    for task in sorted(cohort, key=lambda t: (-t.samples, t.client)):
        least = load.index(min(load))
        load[least] += task.samples * (1 if shares[least] else 1 + together)
        shares[least].append(task)
    for _ in range(4 * workers if cohort else 0):
        most, least = load.index(max(load)), load.index(min(load))
        changed = _changed(shares[most], shares[least], (load[most] - load[least]) / 2)
        taken = [_time(share, together) for share in changed]
        if max(taken) >= load[most]:
            break
        (shares[most], shares[least]), (load[most], load[least]) = changed, taken
    return shares


def _time(share: Share, together: float) -> float:
    sizes = [task.samples for task in share]
    return sum(sizes) + together * max(sizes, default=0)


def _changed(large: Share, small: Share, excess: float) -> tuple[Share, Share]:
    """Two shares after a client of the first has gone to the second, for another or for nothing, so that about the
    excess goes with it."""
    sizes = np.array([task.samples for task in large])
    others = np.array([0, *(task.samples for task in small)])
    order = np.argsort(others, kind="stable")
    just_above = np.searchsorted(others[order], sizes - excess).clip(max=len(order) - 1)
    pairs = [(give, order[at]) for ats in (just_above, (just_above - 1).clip(min=0)) for give, at in enumerate(ats)]
    give, take = min(pairs, key=lambda pair: abs(sizes[pair[0]] - others[pair[1]] - excess))
    back = slice(take - 1, take) if take else slice(0, 0)
    return [*large[:give], *large[give + 1 :], *small[back]], [*small[: back.start], *small[back.stop :], large[give]]
