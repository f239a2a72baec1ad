import numpy as np
import pytest
from sklearn import datasets

from fedvls.data import FederatedData, load_dataset


@pytest.fixture(scope="module")
def digits() -> FederatedData:
    return load_dataset("digits")


def test_every_sample_is_in_exactly_one_part(digits):
    original = datasets.load_digits()
    parts = np.concatenate([digits.x_train, digits.x_test]).reshape(-1, 64) * 16
    assert len(parts) == 1797
    assert np.unique(parts, axis=0).shape == (1797, 64)  # all samples differ, so none is in both parts
    assert np.array_equal(np.unique(parts, axis=0), np.unique(original.data, axis=0))


def test_each_class_gives_its_first_four_fifths_to_training(digits):
    x, y = datasets.load_digits(return_X_y=True)
    for label in range(10):
        ours = np.concatenate(
            [part[which == label] for part, which in ((digits.x_train, digits.y_train), (digits.x_test, digits.y_test))]
        )
        assert np.array_equal(ours.reshape(-1, 64) * 16, x[y == label])
        assert (digits.y_train == label).sum() == int(0.8 * (y == label).sum())


def test_shapes_scale_and_sizes(digits):
    assert digits.x_train.shape == (1433, 1, 8, 8)
    assert digits.x_test.shape == (364, 1, 8, 8)
    assert digits.x_train.dtype == np.float32
    assert (digits.x_train.min(), digits.x_train.max()) == (0.0, 1.0)
    assert digits.mean == digits.std == (0.5,)
    assert digits.classes == 10


def test_loading_twice_gives_the_same_bits(digits):
    again = load_dataset(**digits.spec)
    assert again.fingerprint == digits.fingerprint
    assert again.spec == {"name": "digits"}


def test_the_file_and_scikit_learns_own_reading_agree(monkeypatch, digits):
    monkeypatch.setattr("fedvls.data.digits.find_spec", lambda name: None)
    assert load_dataset("digits").fingerprint == digits.fingerprint
