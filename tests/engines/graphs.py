"""CUDA graphs as a CPU can have them: operations and addresses are written down once and run again without Python.

What a captured step must not do shows here as on a GPU. A number read while capturing (`int(tensor)`) is refused, but
for `numpy()` and `tolist()`, of which PyTorch tells nobody. A tensor that was replaced since is read where it was, so
that what it says is out of date; and one that nobody holds any more, which a GPU would read all the same, is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from fedvls.engines.capture import Replay

aten = torch.ops.aten
LOOKS = (aten._local_scalar_dense, aten.item, aten.is_nonzero, aten.equal, aten.nonzero, aten._unique2)
"""Their result decides what the host does next, so that they cannot be captured."""


class _Place:
    """Where a tensor lies: what the operations of a graph are given instead of it."""

    def __init__(self, tensor: Tensor, made_here: bool) -> None:
        self._storage = StorageWeakRef(tensor.untyped_storage())
        self._held = tensor.untyped_storage() if made_here else None  # the graph's own memory stays
        self._like = tensor.new_empty(0)
        self._where = tensor.storage_offset(), tensor.size(), tensor.stride()

    def tensor(self) -> Tensor:
        storage = torch.UntypedStorage._new_with_weak_ptr(self._storage.cdata)
        assert storage is not None, f"a graph reads memory that is free: {tuple(self._where[1])}, {self._like.dtype}"
        return self._like.new_empty(0).set_(storage, *self._where)


class Graph(TorchDispatchMode):
    """A captured step. Capturing leaves all memory as it was."""

    def __init__(self, step: Callable[[], None]) -> None:
        super().__init__()
        self._calls: list[tuple[Any, Any, Any, list[_Place]]] = []
        self._own: set[int] = set()
        self._before: dict[int, tuple[Tensor, Tensor]] = {}
        with self:
            step()
        for bytes_now, bytes_before in self._before.values():
            bytes_now.copy_(bytes_before)
        self._before.clear()

    @property
    def operations(self) -> int:
        """How many it holds; views are none."""
        return len(self._calls)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function.overloadpacket in LOOKS or torch.Tag.nondeterministic_seeded in function.tags:
            raise RuntimeError(f"operation not permitted when stream is capturing: {function}")
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        for tensor in given:
            self._remember(tensor)
        written_down = tree_map_only(Tensor, self._place, (args, kwargs))
        out = function(*args, **kwargs)
        known = {_address(tensor) for tensor in given}
        fresh = [t for t in tree_leaves(out) if isinstance(t, Tensor) and _address(t) not in known]
        self._own |= {_address(tensor) for tensor in fresh}
        if fresh or function._schema.is_mutable:
            self._calls.append((function, *written_down, [self._place(tensor) for tensor in fresh]))
        return out

    def replay(self) -> None:
        """Do it all again, on whatever lies there now."""
        for function, args, kwargs, places in self._calls:
            args, kwargs = tree_map_only(_Place, _Place.tensor, (args, kwargs))
            known = {_address(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
            out = tree_leaves(function(*args, **kwargs))
            fresh = [t for t in out if isinstance(t, Tensor) and _address(t) not in known]
            for place, tensor in zip(places, fresh, strict=True):
                place.tensor().copy_(tensor)

    def _place(self, tensor: Tensor) -> _Place:
        return _Place(tensor, _address(tensor) in self._own)

    def _remember(self, tensor: Tensor) -> None:
        address = _address(tensor)
        if address not in self._own and address not in self._before:
            everything = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
            self._before[address] = everything, everything.clone()


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


class Replayed(Replay):
    """A step of a stack on a CPU, captured and replayed as on CUDA."""

    graphs: list[Graph]
    """All that were captured, by whatever stack."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self.enabled = True

    def forget(self) -> None:
        self._graphs.clear()
        self._runs.clear()

    def _captured(self, step: Callable[[], None]) -> Any:
        graph = Graph(step)
        self.graphs.append(graph)
        return graph
