"""The order in which a client sees its samples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedvls.engines.batches import epoch_batches

SAMPLES, SIZES = st.integers(1, 300), st.integers(1, 70)


def batches(samples, size, batch_norm=False, **position):
    where = {"seed": 0, "round": 1, "client": 2, "epoch": 0, **position}
    return epoch_batches(samples, size, batch_norm=batch_norm, **where)


@settings(deadline=None)
@given(samples=SAMPLES, size=SIZES, batch_norm=st.booleans(), seed=st.integers(0, 100))
def test_every_sample_is_seen_once_an_epoch(samples, size, batch_norm, seed):
    seen = np.concatenate(batches(samples, size, batch_norm, seed=seed)).tolist()
    single = batch_norm and samples == 1
    assert sorted(seen) == ([0, 0] if single else list(range(samples)))


@settings(deadline=None)
@given(samples=SAMPLES, size=SIZES)
def test_all_batches_are_full_but_the_last_which_is_kept(samples, size):
    sizes = [len(batch) for batch in batches(samples, size)]
    assert sizes[:-1] == [size] * (len(sizes) - 1)
    assert 1 <= sizes[-1] <= size
    assert len(sizes) == -(-samples // size)


@settings(deadline=None)
@given(samples=SAMPLES, size=st.integers(2, 70))
def test_under_batch_norm_no_batch_has_one_sample(samples, size):
    sizes = [len(batch) for batch in batches(samples, size, batch_norm=True)]
    assert min(sizes) >= 2
    assert sizes[:-1] == [size] * (len(sizes) - 1)


@settings(deadline=None)
@given(samples=SAMPLES, size=st.integers(2, 70))
def test_batch_norm_changes_nothing_but_a_last_batch_of_one(samples, size):
    plain, merged = batches(samples, size), batches(samples, size, batch_norm=True)
    if samples % size != 1:
        assert [batch.tolist() for batch in merged] == [batch.tolist() for batch in plain]
    elif samples > 1:
        last = np.concatenate(plain[-2:]).tolist()
        assert [batch.tolist() for batch in merged] == [*(batch.tolist() for batch in plain[:-2]), last]


def test_65_samples_under_batch_norm_are_one_batch():
    assert [len(batch) for batch in batches(65, 64)] == [64, 1]
    assert [len(batch) for batch in batches(65, 64, batch_norm=True)] == [65]


def test_a_client_with_one_sample_shows_it_twice_to_batch_norm():
    assert [batch.tolist() for batch in batches(1, 64)] == [[0]]
    assert [batch.tolist() for batch in batches(1, 64, batch_norm=True)] == [[0, 0]]


@pytest.mark.parametrize("position", [{"seed": 1}, {"round": 2}, {"client": 3}, {"epoch": 1}])
def test_every_epoch_of_every_client_has_its_own_order(position):
    def order(**where):
        return np.concatenate(batches(50, 16, **where)).tolist()

    assert order() == order()
    assert order(**position) != order()


def test_the_order_does_not_depend_on_the_batch_size():
    assert np.concatenate(batches(50, 7)).tolist() == np.concatenate(batches(50, 16)).tolist()
