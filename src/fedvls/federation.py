"""A federation: data shared among clients and a model, ready to be trained with any method."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from .augment import Augmentation, choose_augmentation
from .callbacks import Callback
from .data import FederatedData, load_dataset
from .data.resident import ResidentData
from .engines import check_engine
from .engines.memory import told_when_full
from .errors import RunError, UsageError
from .loop import RoundLoop
from .method import Method, from_spec, get_method
from .models import build_network, complete_spec
from .models.network import ModelState
from .numerics import DTYPES, repeatable, resolve_device
from .partition import PARTITIONS, Partition, dirichlet, get_partition, given
from .runs.config import AT_SITES, RunConfig
from .runs.files import exclusive
from .runs.result import Result
from .runs.start import load_start
from .runs.store import RunDirectory, fresh_folder
from .trackers import open_trackers

log = logging.getLogger("fedvls")


class Federation:
    """Clients, their data and the model they train together.

    data: a `FederatedData`, a data set's name or a path (.npz, .csv, a folder);
    partition: e.g. `dirichlet(beta=0.05)` (default: the clients the data come with, if they do);
    clients: how many (default: as many as the data have, or 10);
    model: a name or any `torch.nn.Module`, whose last Linear is the classifier unless `classifier` names another.
    One seed decides everything; partition_seed, model_seed and sampling_seed can be set apart.
    """

    def __init__(
        self,
        data: FederatedData | str,
        *,
        partition: Partition | str | None = None,
        clients: int | None = None,
        model: str | Mapping[str, Any] | nn.Module = "mlp",
        seed: int = 0,
        augmentation: str | Mapping[str, Any] | Augmentation = "auto",
        classifier: str | None = None,
        partition_seed: int | None = None,
        model_seed: int | None = None,
        sampling_seed: int | None = None,
        engine: str = "auto",
        device: str = "auto",
        dtype: str = "float32",
        threads: int = 1,
    ) -> None:
        self.data = load_dataset(data) if isinstance(data, str) else data
        if clients is None:
            clients = 10 if self.data.clients is None else len(self.data.clients)
        if isinstance(partition, str):
            partition = get_partition(partition)
        if partition is None:
            partition = dirichlet() if self.data.clients is None else given()
        self.partition = partition
        self.augmentation = choose_augmentation(augmentation, self.data)
        partition_spec = self.partition.spec
        if self.partition.name not in PARTITIONS:
            partition_spec = {"name": f"own partition: {self.partition.name}"}
        own_seed = seed if model_seed is None else model_seed
        if not isinstance(model, nn.Module):
            model = complete_spec(model)
        self.network = build_network(
            model, self.data.sample_shape, self.data.classes, own_seed, classifier, vocabulary=self.data.vocabulary
        )
        if isinstance(model, nn.Module):
            model = {"name": f"own module: {type(model).__name__}", "fingerprint": self.network.fingerprint}
        self._base = RunConfig.from_mapping(
            {
                "data": self.data.spec or {"name": f"in memory: {self.data.name}"},
                "partition": {**partition_spec, "seed": partition_seed},
                "model": {**model, "classifier": classifier, "seed": model_seed},
                "sampling": {"seed": sampling_seed},
                "augmentation": self.augmentation.spec,
                "clients": clients,
                "seed": seed,
                "dtype": dtype,
                "engine": engine,
                "device": device,
                "threads": threads,
            },
            "Federation()",
        )
        self.split = self.partition.split(
            self.data.y_train,
            self.data.classes,
            clients,
            self._base.seed_of("partition"),
            given=self.data.clients,
            domains=self.data.domain_train,
        )
        self.device = resolve_device(device, dtype)
        with told_when_full(self.device):
            self._resident = ResidentData(self.data, self.device, DTYPES[dtype])
        check_engine(engine, self._resident)

    @staticmethod
    def from_config(config: RunConfig) -> Federation:
        """The federation a configuration describes."""
        for name in (config.data["name"], config.model["name"], config.partition["name"], config.start):
            if str(name).startswith(("in memory:", "own module:", "own partition:")):
                raise RunError(
                    f"this run uses something that exists in Python only ({name}): continue it from Python, "
                    "with the same Federation(...) and run(..., out=its folder)"
                )
        if config.data["name"] == AT_SITES:
            raise RunError(
                "this run's data are at real sites: continue it with `flwr run` in its app's folder, with the same "
                "server.run_dir"
            )
        partition = {k: v for k, v in config.partition.items() if k != "seed"}
        model = {k: v for k, v in config.model.items() if k not in ("seed", "classifier")}
        for unexpected in config.sampling.keys() - {"seed"}:
            raise UsageError(f"unknown key sampling.{unexpected}; sampling has only a seed")
        return Federation(
            load_dataset(**config.data),
            partition=get_partition(partition.pop("name"), **partition),
            clients=config.clients,
            model=model,
            seed=config.seed,
            augmentation=config.augmentation,
            classifier=config.model.get("classifier"),
            partition_seed=config.partition.get("seed"),
            model_seed=config.model.get("seed"),
            sampling_seed=config.sampling.get("seed"),
            engine=config.engine,
            device=config.device,
            dtype=config.dtype,
            threads=config.threads,
        )

    def run(
        self,
        method: Method | str = "fedvls",
        rounds: int = 50,
        epochs: int = 5,
        *,
        out: str | Path | None = "auto",
        start: ModelState | Mapping[str, Tensor] | nn.Module | str | Path | None = None,
        callbacks: Sequence[Callback] = (),
        **choices: Any,
    ) -> Result:
        """Train. `choices` are the other keys of a configuration: batch_size, lr, participation, local_every, ...

        out: "auto" makes a new folder under runs/, a path is that folder (a run that stopped there is continued, a
        complete one is read back), None keeps everything in memory. start: weights to begin with, if not the model's.
        """
        built = get_method(method) if isinstance(method, str) else method
        settings = {**self._base.to_mapping(), **choices, "rounds": rounds, "epochs": epochs, "method": built.spec}
        network = self.network
        if built.adapt is not None:
            network = built.adapt(network, self.data.classes, self._base.seed_of("model"))
        first, named = load_start(start, network, self.device, self._resident.dtype)
        config = RunConfig.from_mapping({**settings, "start": named}, "run()")
        for key in ("clients", "seed", "data", "partition", "model", "sampling", "augmentation", "dtype"):
            if getattr(config, key) != getattr(self._base, key):
                raise UsageError(f"{key} belongs to the federation: set it in Federation(...), not in run()")
        if network.has_batch_norm and config.batch_size == 1:
            raise UsageError("batch_size = 1, but the model has BatchNorm, which needs two samples: use 2 or more")
        if out is None:
            directory = None
        elif out == "auto":
            name = f"{built.name}-{self.data.name}-{self.partition.name}-s{config.seed}"
            directory = RunDirectory.prepare(fresh_folder(Path("runs"), name), config)
        else:
            directory = RunDirectory.prepare(Path(out), config)
        trackers = open_trackers(config.log, directory.path if directory else None)
        with (
            exclusive(directory.path) if directory else nullcontext(),
            repeatable(self.device, config.threads, config.dtype),
            told_when_full(self.device),
        ):
            loop = RoundLoop(
                config,
                self.data,
                self._resident,
                self.split,
                self.augmentation,
                built,
                network,
                first,
                directory,
                [*callbacks, *trackers],
            )
            return loop.complete()

    @property
    def clients(self) -> int:
        return self.split.clients


def run_config(config: RunConfig, out: str | Path | None, callbacks: Sequence[Callback] = ()) -> Result:
    """Run what a configuration describes: the whole of `fedvls run`."""
    federation = Federation.from_config(config)
    keys = ("method", "rounds", "epochs", "start", "clients", "data", "partition", "model", "sampling", "augmentation")
    choices = {k: v for k, v in config.to_mapping().items() if k not in keys}
    return federation.run(
        from_spec(config.method),
        config.rounds,
        config.epochs,
        out=out,
        start=config.start,
        callbacks=callbacks,
        **choices,
    )
