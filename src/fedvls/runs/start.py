"""The weights a run begins with."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from ..errors import UsageError
from ..models.network import ModelState, Network

Start = ModelState | Mapping[str, Tensor] | nn.Module | str | Path | None


def load_start(
    start: Start, network: Network, device: torch.device, dtype: torch.dtype
) -> tuple[ModelState, str | None]:
    """The start state on the device, and its name in the configuration (None: the model's own initialisation)."""
    own = network.start(device, dtype)
    if start is None:
        return own, None
    if isinstance(start, str | Path):
        path = Path(start)
        try:
            tensors: Mapping[str, Tensor] = load_file(path)
        except (OSError, SafetensorError) as error:
            raise UsageError(f"cannot read start weights {path} as safetensors: {error}") from None
        name = str(path.resolve())
        # A checkpoint of a run holds more than the model; its model part is what is meant.
        if any(k.startswith("model/") for k in tensors):
            tensors = {k.removeprefix("model/"): t for k, t in tensors.items() if k.startswith("model/")}
    else:
        if isinstance(start, nn.Module):
            start = start.state_dict()
        tensors = start.tensors() if isinstance(start, ModelState) else start
        content = save({k: t.detach().cpu().contiguous() for k, t in tensors.items()})
        name = f"in memory: {hashlib.sha256(content).hexdigest()[:16]}"
    return _fitted(own, tensors, name), name


def _fitted(own: ModelState, tensors: Mapping[str, Tensor], name: str) -> ModelState:
    """`own` with these tensors, or an error that names the first one that does not fit."""
    for key, mine in own.tensors().items():
        if key not in tensors:
            raise UsageError(f"start weights {name} lack {key!r}, which the model has")
        if tensors[key].shape != mine.shape:
            raise UsageError(
                f"start weights {name}: {key!r} has shape {tuple(tensors[key].shape)}, the model {tuple(mine.shape)}"
            )
    return own.updated(
        {k: tensors[k].detach().to(mine.device, mine.dtype).clone() for k, mine in own.tensors().items()}
    )
