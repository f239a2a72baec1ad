"""All clients' convolution weights, laid out for the kernels: aligned, in the compute type, by one kernel."""

from __future__ import annotations

from typing import Any

import torch

from . import elementwise
from .values import Tensors

BLOCK = 1024
ALIGNMENT = 64


class Packing:
    """Where each weight lies among the parameters and where it goes; made once, outside any capture.

    The packed weights lie one after the other, each `[K, O, columns]` in one piece.
    """

    def __init__(self, tensors: Tensors, columns: dict[str, int]) -> None:
        self.columns = columns
        self.places: dict[str, int] = {}
        table: list[tuple[int, int, int, int, int]] = []
        self.size = 0
        for name, tensor in tensors.items():
            outputs, own, width = tensor.shape[1], tensor[0, 0].numel(), columns[name]
            self.places[name] = self.size
            rows, length = (1, outputs * own) if own == width else (outputs, own)
            for row in range(rows):
                for at in range(0, length, BLOCK):
                    start = int(tensor.storage_offset()) + row * own + at
                    table.append((start, self.size, outputs * width, row * width + at, min(BLOCK, length - at)))
            self.size += -(-outputs * width // ALIGNMENT) * ALIGNMENT
        some = next(iter(tensors.values()))
        self.one_matrix = len({(t.untyped_storage().data_ptr(), t.stride(0)) for t in tensors.values()}) == 1
        self.table = torch.tensor(table, dtype=torch.int32, device=some.device)

    @staticmethod
    def key(tensors: Tensors) -> tuple[Any, ...]:
        """What the layout depends on; clients may be fewer and storage another without a new one."""
        several = len({t.untyped_storage().data_ptr() for t in tensors.values()}) > 1
        return several, *((t.storage_offset(), t.stride(0), t.device) for t in tensors.values())

    def __call__(self, tensors: Tensors, compute: torch.dtype) -> Tensors:
        some = next(iter(tensors.values()))
        clients = some.shape[0]
        packed = some.new_empty(clients * self.size, dtype=compute)
        views: Tensors = {}
        for name, place in self.places.items():
            shape = (clients, tensors[name].shape[1], self.columns[name])
            views[name] = packed[clients * place :][: shape[0] * shape[1] * shape[2]].view(shape)
            if tensors[name][0, 0].numel() < shape[2]:
                views[name].zero_()
        if self.one_matrix:
            whole = some.as_strided((1,), (1,), 0)
            elementwise.pack[(len(self.table), clients)](
                whole, packed, self.table, some.stride(0), clients, BLOCK=BLOCK
            )
        else:
            for name, view in views.items():
                own = tensors[name].flatten(2)
                view[..., : own.shape[-1]].copy_(own)
        return views
