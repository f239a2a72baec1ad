"""The one source of randomness: what a draw is for decides it, and nothing else."""

import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fedvls import rng

CPU = torch.device("cpu")
POSITIONS = st.lists(st.integers(0, 10**6), max_size=3)
WORDS = st.integers(-(2**31), 2**31 - 1)


def test_streams_can_never_change_silently():
    # Frozen. A run of an older version can only be repeated while these stand: BLAKE2b of the text as the key, raw
    # Philox words, the order of their stable sort, their top 53 bits.
    assert rng.key(0, "batches", 1, 2, 3).random_raw(2).tolist() == [6376962548542570893, 369224625431251391]
    assert rng.permutation(rng.key(0, "batches", 1, 2, 3), 8).tolist() == [1, 5, 7, 0, 6, 4, 3, 2]
    assert rng.choose(rng.key(7, "sampling", 1), 10, 4).tolist() == [0, 1, 2, 4]
    assert rng.uniform(rng.key(0, "init", "w"), (3,)).tolist() == [
        0.3699800343712961,
        0.6274601514416761,
        0.0913424090365258,
    ]


def test_hashed_words_can_never_change_silently():
    # Frozen, like the streams: masks of dropout are made of them.
    pair = torch.tensor([123456789, -987654321], dtype=torch.int32)
    assert rng.word_pairs(rng.key(0, "dropout", 1, 2, 3), 2).tolist() == [
        [-1159572120, -481122216],
        [721515522, 163932774],
    ]
    assert rng.hashed(pair, 0, 4).tolist() == [-85586333, -1216042140, 811177826, -850455009]
    assert rng.hashed(pair, 3, 2).tolist() == [441508258, -366420863]


@settings(deadline=None)
@given(pair=st.tuples(WORDS, WORDS), draw=st.integers(0, 1000), n=st.integers(0, 70))
def test_hashed_words_are_those_of_whole_numbers_modulo_2_to_the_32(pair, draw, n):
    """The same hash in Python's numbers, which never overflow."""
    expected = []
    for place in range(n):
        word = (place * 0x9E3779B9 + pair[0]) % 2**32
        word = ((word ^ word >> 16) * 0x7FEB352D + pair[1] + draw * 0x85EBCA6B) % 2**32
        word = (word ^ word >> 15) * 0x846CA68B % 2**32
        word = (word ^ word >> 16) * 0xC2B2AE35 % 2**32
        expected.append(word - 2**32 if word >= 2**31 else word)
    assert rng.hashed(torch.tensor(pair, dtype=torch.int32), draw, n).tolist() == expected


def test_hashed_words_are_evenly_spread():
    """16 ranges of equal size: 10^6 words put 62,500 into each, within five deviations of sqrt(10^6 / 16 * 15 / 16)."""
    for pair in ([0, 0], [1, 0], [-1, 12345]):
        words = rng.hashed(torch.tensor(pair, dtype=torch.int32), 0, 10**6)
        assert (torch.bincount((words >> 28) + 8, minlength=16) - 62_500).abs().max() < 5 * 242


def test_torch_draws_can_never_change_silently():
    # Frozen: the seed handed to torch, whose own streams are torch's.
    with rng.torch_draws(CPU, 0, "library", 1, 2):
        assert torch.initial_seed() == 7191188401034179755


@settings(deadline=None)
@given(n=st.integers(0, 300), seed=st.integers(0, 2**64), position=POSITIONS)
def test_a_permutation_holds_every_number_once(n, seed, position):
    assert sorted(rng.permutation(rng.key(seed, "order", *position), n).tolist()) == list(range(n))


@given(words=st.lists(st.integers(0, 5) | st.integers(0, 2**64 - 1), max_size=60))
def test_equal_words_keep_their_order(words):
    """Two of 2^64 hardly ever are; a library's fast sort would put them anyhow."""

    class Drawn:
        def random_raw(self, n):
            return np.array(words, np.uint64)

    assert rng.permutation(Drawn(), len(words)).tolist() == sorted(range(len(words)), key=words.__getitem__)


@settings(deadline=None)
@given(n=st.integers(1, 100), share=st.floats(0, 1), seed=st.integers(0, 1000))
def test_a_choice_is_distinct_and_ascending(n, share, seed):
    m = int(share * n)
    chosen = rng.choose(rng.key(seed, "choice"), n, m).tolist()
    assert len(chosen) == m
    assert chosen == sorted(set(chosen))
    assert set(chosen) <= set(range(n))


def test_every_order_is_as_likely_as_any_other():
    # 6 orders of 3, 6000 draws: 1000 each with a deviation of sqrt(6000 * 1/6 * 5/6) = 29; five of them are 145.
    orders = [tuple(rng.permutation(rng.key(0, "order", i), 3).tolist()) for i in range(6000)]
    counts = [orders.count(order) for order in set(orders)]
    assert len(counts) == 6
    assert all(abs(count - 1000) < 145 for count in counts)


def test_uniform_numbers_fill_zero_to_one_evenly():
    values = rng.uniform(rng.key(0, "uniform"), (100, 1000))
    assert values.shape == (100, 1000)
    assert values.dtype == np.float64
    assert values.min() >= 0
    assert values.max() < 1
    # Mean 1/2 and variance 1/12, each within five deviations of 10^5 draws.
    assert values.mean() == pytest.approx(1 / 2, abs=5 * (1 / 12 / 1e5) ** 0.5)
    assert values.var() == pytest.approx(1 / 12, abs=5 * (1 / 180 / 1e5) ** 0.5)
    assert np.histogram(values, bins=10, range=(0, 1))[0].min() > 9500


def test_uniform_numbers_of_no_shape_and_of_no_size():
    assert rng.uniform(rng.key(0, "uniform"), ()).shape == ()
    assert rng.uniform(rng.key(0, "uniform"), (0, 3)).shape == (0, 3)


def test_normal_numbers_have_mean_zero_variance_one_and_no_memory_of_their_pair():
    values = rng.normal(rng.key(0, "normal"), (2, 50_000))
    assert values.shape == (2, 50_000)
    # Five deviations of 10^5 draws; the fourth moment of a standard normal is 3, with variance 96.
    assert abs(values.mean()) < 5 * 1e5**-0.5
    assert values.var() == pytest.approx(1, abs=5 * (2 / 1e5) ** 0.5)
    assert (values**4).mean() == pytest.approx(3, abs=5 * (96 / 1e5) ** 0.5)
    # Box and Muller make pairs (z1, z2) that lie half the array apart.
    assert abs(np.corrcoef(values)[0, 1]) < 5 / 50_000**0.5


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3,), (2, 3)])
def test_normal_numbers_come_in_any_shape(shape):
    values = rng.normal(rng.key(0, "normal"), shape)
    assert values.shape == shape
    assert np.isfinite(values).all()


@settings(deadline=None)
@given(position=POSITIONS, other=POSITIONS)
def test_different_purposes_share_no_words(position, other):
    first, second = (rng.key(0, "s", *p).random_raw(4).tolist() for p in (position, other))
    assert (first == second) == (position == other)


def test_seed_and_stream_are_part_of_the_purpose():
    words = [tuple(rng.key(seed, stream, 1).random_raw(4)) for seed in (0, 1, -1, 10) for stream in ("a", "b")]
    assert len(set(words)) == 8


def test_keys_of_neighbours_are_uncorrelated():
    rows = np.stack([rng.uniform(rng.key(0, "s", i), (4000,)) for i in range(8)])
    off_diagonal = np.corrcoef(rows)[~np.eye(8, dtype=bool)]
    assert np.abs(off_diagonal).max() < 5 / 4000**0.5


def dropout_draw(*position):
    with rng.torch_draws(CPU, 3, "library", *position):
        return nn.Dropout(0.5)(torch.ones(64)).tolist()


def test_dropout_is_a_function_of_the_key():
    first = dropout_draw(1, 2)
    torch.rand(7)  # moves torch's own generator
    assert dropout_draw(1, 2) == first
    assert dropout_draw(2, 1) != first


def test_torch_draws_leave_no_trace():
    torch.rand(3)
    before = torch.get_rng_state()
    dropout_draw(1, 2)
    assert torch.equal(torch.get_rng_state(), before)


def test_torch_draws_leave_no_trace_of_a_failure_either():
    before = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="shapes"), rng.torch_draws(CPU, 0, "library"):
        torch.rand(2, 3) @ torch.rand(2, 3)
    assert torch.equal(torch.get_rng_state(), before)


def test_keyed_draws_touch_no_global_generator():
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    rng.permutation(rng.key(0, "order"), 100)
    rng.uniform(rng.key(0, "uniform"), (100,))
    assert states == (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())
