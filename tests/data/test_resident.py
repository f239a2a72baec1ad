"""Data as tensors: tokens untouched, files mapped into memory read without a warning, pixels scaled as ever."""

import warnings

import numpy as np
import pytest
import torch

from fedvls.data import FederatedData
from fedvls.data.resident import ResidentData

CPU = torch.device("cpu")
PICK = torch.tensor([3, 0, 2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tokens_come_out_as_they_went_in(dtype):
    tokens = np.random.RandomState(0).randint(0, 98_635, (5, 7))
    data = FederatedData.from_arrays(tokens, [0, 1, 2, 0, 1], tokens[:3], [0, 1, 2], vocabulary=98_635)
    resident = ResidentData(data, CPU, dtype)
    x, y = resident.train_batch(PICK)
    assert x.dtype == torch.int64
    assert x.tolist() == tokens[[3, 0, 2]].tolist()
    assert y.tolist() == [0, 0, 2]
    ((x, _),) = resident.test_batches()
    assert x.dtype == torch.int64
    assert x.tolist() == tokens[:3].tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_pixels_are_divided_by_255_and_scaled_per_channel(dtype):
    pixels = np.random.RandomState(0).randint(0, 256, (4, 3, 2, 2)).astype(np.uint8)
    mean, std = (0.1, 0.2, 0.3), (0.3, 0.2, 0.7)
    data = FederatedData.from_arrays(pixels, [0, 1, 2, 0], pixels[:2], [0, 1], mean=mean, std=std)
    x, _ = ResidentData(data, CPU, dtype).train_batch(PICK)
    shaped = [torch.tensor(one, dtype=dtype).reshape(3, 1, 1) for one in (mean, std)]
    expected = (torch.from_numpy(pixels[[3, 0, 2]]).to(dtype) / 255 - shaped[0]) / shaped[1]
    assert torch.equal(x, expected)  # to the last bit


def test_a_file_mapped_into_memory_gives_the_same_tensors_without_a_warning(tmp_path):
    pixels = np.random.RandomState(0).randint(0, 256, (4, 1, 2, 2)).astype(np.uint8)
    np.save(tmp_path / "x.npy", pixels)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r", allow_pickle=False)
    data = FederatedData.from_arrays(mapped, [0, 1, 1, 0], mapped[:2], [0, 1])
    assert isinstance(data.x_train.base, np.memmap)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resident = ResidentData(data, CPU, torch.float32)
    plain = ResidentData(FederatedData.from_arrays(pixels, [0, 1, 1, 0], pixels[:2], [0, 1]), CPU, torch.float32)
    assert torch.equal(resident.train_batch(PICK)[0], plain.train_batch(PICK)[0])
    (tmp_path / "x.npy").write_bytes(b"")  # the tensors do not depend on the file any more
    assert torch.equal(resident.train_batch(PICK)[0], plain.train_batch(PICK)[0])


def test_arrays_in_memory_are_shared_and_not_copied():
    x = np.zeros((2, 3), np.float32)
    resident = ResidentData(FederatedData.from_arrays(x, [0, 1], x, [0, 1]), CPU, torch.float32)
    x[1, 2] = 5
    assert resident.train_batch(torch.tensor([1]))[0].tolist() == [[0, 0, 5]]


def test_domains_of_the_test_set_are_at_hand():
    x = np.zeros((2, 3), np.float32)
    plain = FederatedData.from_arrays(x, [0, 1], x, [0, 1])
    assert ResidentData(plain, CPU, torch.float32).domain_test is None
    split = FederatedData.from_arrays(x, [0, 1], x, [0, 1], domains=("a", "b"), domain_train=[0, 1], domain_test=[1, 0])
    resident = ResidentData(split, CPU, torch.float32)
    assert resident.domains == ("a", "b")
    assert resident.domain_test.tolist() == [1, 0]
