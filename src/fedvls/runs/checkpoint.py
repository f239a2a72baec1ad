"""Checkpoints: a safetensors file and, written after it, a small json with its checksum. Nothing is ever unpickled."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from ..clients import ClientStates
from ..errors import RunError
from .files import to_json, write_atomically

log = logging.getLogger("fedvls")
KEPT = 2
DAMAGE = (OSError, ValueError, KeyError, TypeError, SafetensorError)
FORMAT = 1


@dataclass(frozen=True)
class GroupTensors:
    """The tensors of one group: its model, what the server remembers, what it sends beside the model."""

    model: dict[str, Tensor] = field(default_factory=dict)
    server: dict[str, Tensor] = field(default_factory=dict)
    broadcast: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Snapshot:
    """Everything that the rounds after `round` depend on."""

    round: int
    groups: list[GroupTensors]
    clients: ClientStates = field(default_factory=ClientStates)

    def tensors(self) -> dict[str, Tensor]:
        """All tensors under flat names: `model/...` for the first group, `group1.model/...` for the next."""
        flat: dict[str, Tensor] = {}
        for number, group in enumerate(self.groups):
            prefix = f"group{number}." if number else ""
            for part in ("model", "server", "broadcast"):
                flat |= {f"{prefix}{part}/{name}": t for name, t in getattr(group, part).items()}
        for client, kept in self.clients.items():
            flat |= {f"client/{client}/{name}": t for name, t in kept.items()}
        return {name: t.detach().cpu().contiguous() for name, t in flat.items()}

    @staticmethod
    def from_tensors(round: int, tensors: Mapping[str, Tensor], device: torch.device) -> Snapshot:
        """Inverse of `tensors`."""
        groups: dict[int, GroupTensors] = {}
        clients: dict[int, dict[str, Tensor]] = {}
        for flat, tensor in tensors.items():
            kind, name = flat.split("/", 1)
            if kind == "client":
                client, name = name.split("/", 1)
                clients.setdefault(int(client), {})[name] = tensor.to(device)
            else:
                number, _, part = kind.rpartition(".")
                group = groups.setdefault(int(number.removeprefix("group") or 0), GroupTensors())
                getattr(group, part)[name] = tensor.to(device)
        return Snapshot(round, [groups[k] for k in sorted(groups)], ClientStates(clients))


def save_checkpoint(folder: Path, snapshot: Snapshot) -> None:
    """Write the snapshot; the json comes last and makes it valid. The last two are kept."""
    folder.mkdir(exist_ok=True)
    content = save_tensors(snapshot.tensors())
    stem = _stem(snapshot.round)
    write_atomically(folder / f"{stem}.safetensors", content)
    mark = {"format": FORMAT, "round": snapshot.round, "sha256": hashlib.sha256(content).hexdigest()}
    write_atomically(folder / f"{stem}.json", to_json(mark).encode())
    marks = _marks(folder)
    for old in marks[KEPT:]:
        old.unlink()
    kept = {mark.stem for mark in marks[:KEPT]}
    for tensors in folder.glob("round-*.safetensors"):
        if tensors.stem not in kept:  # also one that a kill left without its mark
            tensors.unlink()


def load_checkpoint(folder: Path, device: torch.device) -> Snapshot | None:
    """The newest undamaged snapshot, saying which were passed over; None if there never was one."""
    damaged = []
    marks = _marks(folder)
    for mark in marks:
        try:
            return _read(mark, device)
        except DAMAGE as error:
            damaged.append(f"{mark.with_suffix('.safetensors')} ({error})")
            log.warning("checkpoint %s is damaged (%s)", mark.with_suffix(".safetensors"), error)
    if damaged:
        raise RunError(
            f"no usable checkpoint: {'; '.join(damaged)}; restore one from a backup, or start anew in another folder"
        )
    return None


def read_checkpoint(folder: Path, round: int) -> Snapshot:
    """The snapshot after this round, or an error if there is none that is undamaged."""
    mark = folder / f"{_stem(round)}.json"
    try:
        return _read(mark, torch.device("cpu"))
    except DAMAGE as error:
        raise RunError(f"cannot read checkpoint {mark.with_suffix('.safetensors')}: {error}") from None


def _stem(round: int) -> str:
    return f"round-{round:06d}"


def _read(mark: Path, device: torch.device) -> Snapshot:
    about = json.loads(mark.read_text(encoding="utf-8"))
    content = mark.with_suffix(".safetensors").read_bytes()
    if hashlib.sha256(content).hexdigest() != about["sha256"]:
        raise ValueError("its checksum does not match")
    return Snapshot.from_tensors(int(about["round"]), load_tensors(content), device)


def _marks(folder: Path) -> list[Path]:
    """Checkpoint marks, newest first."""
    return sorted(folder.glob("round-*.json"), reverse=True)
