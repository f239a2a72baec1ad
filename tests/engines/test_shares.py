"""Clients dealt out to worker processes, so that all are done at about the same time."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedvls.engines import ClientTask
from fedvls.engines.shares import TOGETHER, balanced


def cohort(sizes):
    return [ClientTask(k, torch.empty(n), torch.empty(0)) for k, n in enumerate(sizes)]


def sizes(share):
    return [task.samples for task in share]


def time_taken(share, together):
    return sum(sizes(share)) + together * max(sizes(share), default=0)


@pytest.mark.parametrize(
    ("given", "together", "expected"),
    [
        # By turns 100 + 40 | 60 + 50 + 3 + 1, 26 apart. The 40 for the 50, or anything for nothing, would be worse.
        ([100, 1, 60, 50, 40, 3], 0.0, [[100, 40], [60, 50, 3, 1]]),
        # By turns 7 + 4 + 3 | 6 + 5, three apart: the 7 goes for the 6.
        ([3, 4, 5, 6, 7], 0.0, [[7, 5], [6, 4, 3]]),
        ([10, 4, 3, 3], 0.0, [[10], [4, 3, 3]]),
        # By turns 10 + 2 | 6 + 5, in time 17 and 14: without the 2 they take 15 and 16.
        ([10, 6, 5, 2], 0.5, [[10], [6, 5, 2]]),
        ([5], 0.0, [[5], []]),
        ([], 0.0, [[], []]),
    ],
)
def test_shares_of_two(given, together, expected):
    shares = [sorted(sizes(share), reverse=True) for share in balanced(cohort(given), 2, together)]
    assert sorted(shares, reverse=True) == expected


@settings(deadline=None)
@given(
    given=st.lists(st.integers(1, 12_000), max_size=40),
    workers=st.integers(1, 5),
    together=st.sampled_from([0.0, TOGETHER]),
)
def test_everyone_is_in_one_share_and_no_share_takes_longer_than_by_turns(given, workers, together):
    shares = balanced(cohort(given), workers, together)
    assert len(shares) == workers
    assert sorted(task.client for share in shares for task in share) == list(range(len(given)))
    by_turns = [[] for _ in range(workers)]
    for task in cohort(sorted(given, reverse=True)):
        min(by_turns, key=lambda share: time_taken(share, together)).append(task)
    assert max(time_taken(s, together) for s in shares) <= max(time_taken(s, together) for s in by_turns)


def test_the_papers_ten_clients_take_two_workers_equally_long():
    """Dirichlet 0.1, seed 0, on MNIST. By turns the shares had 28,934 and 31,066 samples."""
    given = [11_146, 7_857, 7_471, 6_885, 6_507, 6_423, 6_153, 3_964, 3_078, 516]
    plain, stacked = ([time_taken(s, by) for s in balanced(cohort(given), 2, by)] for by in (0.0, TOGETHER))
    assert max(plain) - min(plain) < 0.01 * sum(plain)
    assert max(stacked) - min(stacked) < 0.01 * sum(stacked)
