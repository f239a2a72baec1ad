"""What every program of the benchmark shares: the inputs, the model, the accuracy and the words it reports with.

Standalone: it needs numpy and PyTorch alone, because rivals run it in environments of their own.

A program is started with the path of a settings file and writes one JSON object per line:

    {"event": "ready", "setting": "...", "versions": {...}}
    {"event": "pause"}                      after the untimed first round: the watcher measures the floor, then says go
    {"event": "round", "round": 1, "seconds": ..., "train_seconds": ... or null, "samples": ..., "accuracy": ...}
    {"event": "pause"}                      after the last round
    {"event": "done", "gpu_memory": bytes or null}

or {"event": "refused", "reason": "..."} if it cannot run what it is asked for.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

EVALUATED_AT_ONCE = 250


@dataclass(frozen=True)
class Inputs:
    """One row's settings and the data, partition and start weights that all rows have in common."""

    settings: dict[str, Any]
    arrays: dict[str, np.ndarray]
    positions: list[np.ndarray]
    """Every client's training samples."""
    start: dict[str, Tensor]
    """The weights to begin with, in the order of the model's parameters."""

    def __getitem__(self, key: str) -> Any:
        return self.settings[key]

    @property
    def rounds(self) -> int:
        """All rounds, with the untimed first one."""
        return int(self["rounds"]) + 1

    def train(self) -> tuple[Tensor, Tensor]:
        """Normalised training samples and labels."""
        return self._part("train")

    def test(self) -> tuple[Tensor, Tensor]:
        """Normalised test samples and labels."""
        return self._part("test")

    def samples(self, clients: list[int] | None = None) -> int:
        """Samples that pass forward and backward when these clients (default: any cohort of equal ones) train."""
        if clients is None:
            mean = sum(map(len, self.positions)) / len(self.positions)
            return round(mean * int(self["cohort"]) * int(self["epochs"]))
        return int(sum(len(self.positions[c]) for c in clients)) * int(self["epochs"])

    def model(self) -> nn.Module:
        """The model with the weights to begin with."""
        model = build_model(self["model"])
        with torch.no_grad():
            for parameter, value in zip(model.parameters(), self.start.values(), strict=True):
                parameter.copy_(value)
        return model

    def optimizer(self, model: nn.Module) -> torch.optim.SGD:
        """A fresh optimizer with the settings of all."""
        return torch.optim.SGD(model.parameters(), **self.sgd)

    @property
    def sgd(self) -> dict[str, Any]:
        """The optimizer's values."""
        return {key: float(self[key]) for key in ("lr", "momentum", "weight_decay")}

    def _part(self, part: str) -> tuple[Tensor, Tensor]:
        x = torch.from_numpy(self.arrays[f"x_{part}"]).float() / 255
        mean, std = (torch.tensor(self[key]).reshape(-1, 1, 1) for key in ("mean", "std"))
        return (x - mean) / std, torch.from_numpy(self.arrays[f"y_{part}"])


def read_inputs(path: str | Path) -> Inputs:
    """What the settings file at `path` and the folder it names hold."""
    settings = json.loads(Path(path).read_text(encoding="utf-8"))
    folder = Path(settings["inputs"])
    with np.load(folder / "data.npz", allow_pickle=False) as stored:
        arrays = dict(stored)
    with np.load(folder / "start.npz", allow_pickle=False) as stored:
        start = {name: torch.from_numpy(value) for name, value in stored.items()}
    positions = np.split(arrays.pop("positions"), np.cumsum(arrays.pop("sizes"))[:-1])
    return Inputs(settings, arrays, positions, start)


def build_model(spec: dict[str, Any]) -> nn.Module:
    """A model that other programs can build too."""
    if spec["name"] == "mlp":
        return mlp(spec["widths"])
    if spec["name"] == "two-convolutions":
        return two_convolutions(spec["image"], spec["classes"])
    raise ValueError(f"model {spec['name']!r} is ours alone")


def mlp(widths: list[int]) -> nn.Module:
    """Flatten, then Linear layers of these widths with ReLU in between."""
    layers: list[nn.Module] = [nn.Flatten()]
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def two_convolutions(image: list[int], classes: int) -> nn.Module:
    """The network of pfl's public CIFAR-10 benchmark: two 3x3 convolutions, one pooling, dropout, a hidden layer of 128
    (1,626,442 parameters)."""
    channels, height, width = image
    flat = 64 * ((height - 4) // 2) * ((width - 4) // 2)
    return nn.Sequential(
        *(nn.Conv2d(channels, 32, 3), nn.ReLU()),
        *(nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25)),
        *(nn.Flatten(), nn.Linear(flat, 128), nn.ReLU(), nn.Dropout(0.5)),
        nn.Linear(128, classes),
    )


@torch.no_grad()
def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Share of the test samples whose largest logit is the right one."""
    model.eval()
    device = next(model.parameters()).device
    hits = 0
    for begin in range(0, len(y), EVALUATED_AT_ONCE):
        logits = model(x[begin : begin + EVALUATED_AT_ONCE].to(device))
        hits += int((logits.argmax(-1).cpu() == y[begin : begin + EVALUATED_AT_ONCE]).sum())
    return hits / len(y)


@functools.lru_cache(maxsize=1)
def kept(path: str) -> tuple[Inputs, Tensor, Tensor]:
    """Inputs and normalised training samples, read once in every process that trains."""
    inputs = read_inputs(path)
    return inputs, *inputs.train()


def torch_device(name: str) -> torch.device:
    return torch.device("cuda" if name == "cuda" else "cpu")


class Reporter:
    """Says what happens on the standard output, which from now on is for nobody else."""

    def __init__(self, inputs: Inputs) -> None:
        self.rounds = int(inputs["rounds"])
        self._done = 0
        self._began = 0.0
        self._events = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)  # whatever a library prints goes to the log

    def ready(self, setting: str, *packages: str) -> None:
        """The program is set up; `setting` says how it runs, in a few words."""
        found = {"python": sys.version.split()[0], **{name: version(name) for name in ("torch", *packages)}}
        self._say("ready", setting=setting, versions=found)

    def round_ended(
        self, accuracy: float, samples: int, seconds: float | None = None, train_seconds: float | None = None
    ) -> bool:
        """A round is over, evaluation included; says whether more are to come.

        seconds: how long it took; by default the time since the last call. The first round is not reported.
        """
        taken = time.perf_counter() - self._began if seconds is None else seconds
        if self._done > 0:
            told = {"seconds": taken, "train_seconds": train_seconds, "samples": samples, "accuracy": accuracy}
            self._say("round", round=self._done, **told)
        if self._done in (0, self.rounds):
            self._say("pause")
            sys.stdin.readline()
        self._done += 1
        self._began = time.perf_counter()
        return self._done <= self.rounds

    def refused(self, reason: str) -> None:
        """The program cannot run this."""
        self._say("refused", reason=" ".join(reason.split()))

    def done(self) -> None:
        """The end."""
        used = torch.cuda.max_memory_reserved() if torch.cuda.is_available() else 0
        self._say("done", gpu_memory=used or None)

    def _say(self, event: str, **values: Any) -> None:
        self._events.write(json.dumps({"event": event, **values}) + "\n")
        self._events.flush()
