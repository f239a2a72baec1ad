"""A data set as tensors on the training device; normalisation happens batch by batch, on the device."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from .federated import FederatedData


class ResidentData:
    """Train and test tensors in their stored type (uint8 stays uint8), normalised when a batch is taken."""

    def __init__(self, data: FederatedData, device: torch.device, dtype: torch.dtype) -> None:
        self.device, self.dtype = device, dtype
        self._x_train, self._x_test = (torch.from_numpy(x).to(device) for x in (data.x_train, data.x_test))
        self.y_train, self.y_test = (torch.from_numpy(y).to(device) for y in (data.y_train, data.y_test))
        # uint8 pixels are divided by 255 first: (x/255 - mean)/std
        self._scale = 255.0 if data.x_train.dtype == np.uint8 else 1.0
        self._mean = self._per_channel(data.mean, data.sample_shape)
        self._std = self._per_channel(data.std, data.sample_shape)

    def train_batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Normalised inputs and labels of these training samples."""
        return self._normalised(self._x_train.index_select(0, indices)), self.y_train.index_select(0, indices)

    def test_batches(self, size: int = 1000) -> list[tuple[Tensor, Tensor]]:
        """The whole test set, in order."""
        starts = range(0, len(self.y_test), size)
        return [(self._normalised(self._x_test[s : s + size]), self.y_test[s : s + size]) for s in starts]

    def _normalised(self, x: Tensor) -> Tensor:
        x = x.to(self.dtype)
        if self._scale != 1:
            x = x / self._scale
        return x if self._mean is None or self._std is None else (x - self._mean) / self._std

    def _per_channel(self, values: tuple[float, ...] | None, sample_shape: tuple[int, ...]) -> Tensor | None:
        if values is None:
            return None
        tensor = torch.tensor(values, device=self.device, dtype=self.dtype)
        return tensor.reshape(-1, *(1,) * (len(sample_shape) - 1)) if len(values) > 1 else tensor.reshape(())
