"""The workloads, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..errors import UsageError, unknown

METHODS = ("fedavg", "fedvls")


@dataclass(frozen=True)
class Workload:
    """What is trained, on what, by whom and how."""

    name: str
    summary: str
    dataset: str
    image: tuple[int, int, int]
    train: int
    """Training samples of the real data set."""
    test: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    model: Mapping[str, Any]
    partition: Mapping[str, Any]
    clients: int
    cohort: int
    epochs: int
    batch_size: int
    lr: float
    momentum: float
    weight_decay: float
    rounds: Mapping[str, int]
    """Timed rounds by default, for every device the workload is meant for."""
    classes: int = 10
    augmentation: str = "none"
    rivals: tuple[str, ...] = ()
    """Programs that can be asked to do the same work."""
    gemm_widths: tuple[int, ...] = ()
    """Widths of a chain of Linear layers, whose matrix products are the floor; empty: no floor."""
    samples_per_client: int | None = None
    """Where clients are many and alike, fewer samples mean fewer clients."""
    note: str = ""

    def scaled(self, samples: int | None) -> Workload:
        """The same work on at most so many training samples (and a test set that shrinks alike)."""
        if samples is None:
            return self
        least = self.clients * 20 if self.samples_per_client is None else 2 * self.samples_per_client
        if not least <= samples <= self.train:
            raise UsageError(f"--samples {samples}: {self.name} needs {least} to {self.train}")
        fewer = replace(self, train=samples, test=max(self.test * samples // self.train, 200))
        if self.samples_per_client is None:
            return fewer
        clients = samples // self.samples_per_client
        share = self.cohort / self.clients
        kept = clients * self.samples_per_client
        return replace(fewer, train=kept, clients=clients, cohort=max(1, round(clients * share)))

    def default_rounds(self, device: str) -> int:
        """Timed rounds on this device."""
        if device not in self.rounds:
            allowed = " or ".join(self.rounds)
            raise UsageError(f"workload {self.name!r} is meant for {allowed}, not {device}; give --rounds to insist")
        return self.rounds[device]

    @property
    def samples_per_round(self) -> int:
        """Samples that pass forward and backward in a round of an average cohort."""
        return round(self.train / self.clients * self.cohort * self.epochs)


_CIFAR10: dict[str, Any] = {
    "dataset": "cifar10",
    "image": (3, 32, 32),
    "train": 50_000,
    "test": 10_000,
    "mean": (0.4914, 0.4822, 0.4465),
    "std": (0.2470, 0.2435, 0.2616),
}

WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload(
            name="mnist-mlp",
            summary="MNIST, MLP 784-200-200-10, 10 clients (Dirichlet 0.1), batch 64, 5 epochs: the FedVLS paper's",
            dataset="mnist",
            image=(1, 28, 28),
            train=60_000,
            test=10_000,
            mean=(0.5,),
            std=(0.5,),
            model={"name": "mlp", "widths": [784, 200, 200, 10]},
            partition={"name": "dirichlet", "beta": 0.1},
            clients=10,
            cohort=10,
            epochs=5,
            batch_size=64,
            lr=0.01,
            momentum=0.9,
            weight_decay=1e-5,
            rounds={"cpu": 3, "cuda": 50},
            rivals=("fluke", "flwr", "pfl"),
            gemm_widths=(784, 200, 200, 10),
        ),
        Workload(
            name="cifar10-mobilenetv2",
            summary="CIFAR-10, MobileNetV2, crop + flip + AutoAugment, 10 clients (Dirichlet 0.1), batch 64, 10 epochs",
            **_CIFAR10,
            model={"name": "mobilenetv2"},
            partition={"name": "dirichlet", "beta": 0.1},
            clients=10,
            cohort=10,
            epochs=10,
            batch_size=64,
            lr=0.01,
            momentum=0.9,
            weight_decay=1e-5,
            rounds={"cuda": 2},
            augmentation="cifar",
        ),
        Workload(
            name="cifar10-pfl",
            summary="pfl's public CIFAR-10 benchmark: 1,000 clients of 50 images, 50 in a round, batch 10, one epoch",
            **_CIFAR10,
            model={"name": "two-convolutions", "image": [3, 32, 32], "classes": 10},
            partition={"name": "iid"},
            clients=1000,
            cohort=50,
            epochs=1,
            batch_size=10,
            lr=0.1,
            momentum=0.0,
            weight_decay=0.0,
            rounds={"cpu": 3, "cuda": 1500},
            rivals=("fluke", "flwr", "pfl"),
            samples_per_client=50,
            note="evaluated every round, where the public benchmark evaluates every tenth",
        ),
    )
}


def get_workload(name: str) -> Workload:
    """The workload of this name."""
    if name not in WORKLOADS:
        raise unknown("workload", name, WORKLOADS)
    return WORKLOADS[name]
