"""What a site keeps between rounds (MOON's last model, SCAFFOLD's and FedDyn's corrections): files at the site.

Every message starts a new process, and a resumed run has a new number at Flower, so neither memory nor Flower's
context would do. A file per round, because the server may never see, or may refuse, what came with the last one: it
says which round counted, and the site goes on from there.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from ..errors import RunError
from ..runs.files import write_atomically

Tensors = dict[str, Tensor]


class SiteState:
    """The kept tensors of one site in one run."""

    def __init__(self, folder: Path, run: str, site: int) -> None:
        if not re.fullmatch(r"[\w-]*", run):  # it comes over the network and becomes a folder's name
            raise RunError(f"the run is named {run!r}: only letters, digits, _ and - are allowed")
        self.folder = folder / (run or "unnamed") / f"site-{site}"

    def after(self, round: int, device: torch.device) -> Tensors:
        """What the site kept in that round; nothing before its first."""
        if round == 0:
            return {}
        path = self._path(round)
        try:
            return {name: tensor.to(device) for name, tensor in load(path.read_bytes()).items()}
        except FileNotFoundError:
            return {}  # the method keeps nothing, which is the case for most
        except (OSError, SafetensorError) as error:
            raise RunError(f"{path} cannot be read ({error}); remove it to let the site start without it") from None

    def keep(self, round: int, tensors: Tensors, accepted: int) -> None:
        """Write what was kept in `round`; what is older than the last accepted round is not needed any more."""
        if not tensors:
            return
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(self._path(round), save({k: t.detach().cpu().contiguous() for k, t in tensors.items()}))
        for old in self.folder.glob("round-*.safetensors"):
            if old.name < self._path(accepted).name:
                old.unlink(missing_ok=True)

    def _path(self, round: int) -> Path:
        return self.folder / f"round-{round:06d}.safetensors"


def state_folder(configured: object) -> Path:
    """Where a site keeps its state: `state-dir` of its node configuration, or else a folder in Flower's home."""
    if configured:
        return Path(str(configured)).expanduser()
    return Path(os.environ.get("FLWR_HOME") or Path.home() / ".flwr") / "fedvls"
