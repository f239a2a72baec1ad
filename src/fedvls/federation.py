"""A federation: data shared among clients, a model, and the round loop, which exists here and nowhere else."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .aggregation import ServerInputs, ServerOutputs, client_weights, combine_buffers
from .callbacks import Callback
from .clients import ClientStates, sample_cohort
from .data import FederatedData, load_dataset
from .data.resident import ResidentData
from .engines import ClientTask, Recipe, Update, choose
from .errors import RunError, UsageError, unknown
from .evaluation import drift_diversity, evaluate
from .groups import group_accuracy, summarise_groups
from .method import Method, from_spec, get_method
from .models import build_network, complete_spec
from .models.network import ModelState
from .numerics import DTYPES, repeatable, resolve_device
from .partition import Partition, dirichlet, get_partition
from .runs.checkpoint import Snapshot
from .runs.config import RunConfig
from .runs.files import exclusive
from .runs.header import build_header, changed_versions
from .runs.result import Result
from .runs.start import load_start
from .runs.store import Record, RunDirectory, fresh_folder

log = logging.getLogger("fedvls")


class Federation:
    """Clients, their data and the model they train together.

    data: a `FederatedData`, a data set's name or the path of an .npz; partition: e.g. `dirichlet(beta=0.05)`;
    model: a name or any `torch.nn.Module`, whose last Linear is the classifier unless `classifier` names another.
    One seed decides everything; partition_seed, model_seed and sampling_seed can be set apart.
    """

    def __init__(
        self,
        data: FederatedData | str,
        *,
        partition: Partition | str | None = None,
        clients: int = 10,
        model: str | Mapping[str, Any] | nn.Module = "mlp",
        seed: int = 0,
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
        if isinstance(partition, str):
            partition = get_partition(partition)
        self.partition = dirichlet() if partition is None else partition
        own_seed = seed if model_seed is None else model_seed
        if not isinstance(model, nn.Module):
            model = complete_spec(model)
        self.network = build_network(model, self.data.sample_shape, self.data.classes, own_seed, classifier)
        if isinstance(model, nn.Module):
            model = {"name": f"own module: {type(model).__name__}", "fingerprint": self.network.fingerprint}
        self._base = RunConfig.from_mapping(
            {
                "data": self.data.spec or {"name": f"in memory: {self.data.name}"},
                "partition": {**self.partition.spec, "seed": partition_seed},
                "model": {**model, "classifier": classifier, "seed": model_seed},
                "sampling": {"seed": sampling_seed},
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
            self.data.y_train, self.data.classes, clients, self._base.seed_of("partition")
        )
        self.device = resolve_device(device)
        self._resident = ResidentData(self.data, self.device, DTYPES[dtype])
        self._engine, self._engine_reason = choose(engine, self.network, self._resident)

    @staticmethod
    def from_config(config: RunConfig) -> Federation:
        """The federation a configuration describes."""
        for section in (config.data, config.model):
            if str(section.get("name")).startswith(("in memory:", "own module:")):
                raise RunError(
                    f"this run uses something that exists in Python only ({section['name']}): continue it from Python, "
                    "with the same Federation(...) and run(..., out=its folder)"
                )
        partition = {k: v for k, v in config.partition.items() if k != "seed"}
        model = {k: v for k, v in config.model.items() if k not in ("seed", "classifier")}
        for unexpected in config.sampling.keys() - {"seed"}:
            raise UsageError(f"unknown key sampling.{unexpected}; sampling has only a seed")
        return Federation(
            _load(config.data),
            partition=get_partition(partition.pop("name"), **partition),
            clients=config.clients,
            model=model,
            seed=config.seed,
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
        first, named = load_start(start, self.network, self.device, self._resident.dtype)
        config = RunConfig.from_mapping({**settings, "start": named}, "run()")
        for key in ("clients", "seed", "data", "partition", "model", "sampling", "dtype"):
            if getattr(config, key) != getattr(self._base, key):
                raise UsageError(f"{key} belongs to the federation: set it in Federation(...), not in run()")
        if out is None:
            directory = None
        elif out == "auto":
            name = f"{built.name}-{self.data.name}-{self.partition.name}-s{config.seed}"
            directory = RunDirectory.prepare(fresh_folder(Path("runs"), name), config)
        else:
            directory = RunDirectory.prepare(Path(out), config)
        with (
            exclusive(directory.path) if directory else nullcontext(),
            repeatable(self.device, config.threads),
        ):
            return _Run(self, config, built, first, directory, callbacks).complete()

    @property
    def clients(self) -> int:
        return self.split.clients


class _Run:
    """One run of a federation: the state between rounds and the loop over them."""

    def __init__(
        self,
        federation: Federation,
        config: RunConfig,
        method: Method,
        start: ModelState,
        directory: RunDirectory | None,
        callbacks: Sequence[Callback],
    ) -> None:
        self.federation, self.config, self.method = federation, config, method
        self.directory, self.callbacks = directory, callbacks
        self.engine, self.data = federation._engine, federation._resident
        self.model, self.server, self.states = start, dict[str, Tensor](), ClientStates()
        self.records: list[Record] = []
        self.recipe = Recipe(
            config.epochs,
            config.batch_size,
            config.lr,
            config.momentum,
            config.weight_decay,
            config.persistent_momentum,
            config.teacher_mode,
        )
        self.header = build_header(
            config,
            federation.data,
            federation.split,
            federation.network,
            start,
            method,
            self.engine.name,
            federation._engine_reason,
            federation.device,
        )

    def complete(self) -> Result:
        """Run the rounds that are left."""
        self._restore()
        for callback in self.callbacks:
            callback.on_start(self.header, self.config.rounds, len(self.records))
        for round in range(len(self.records) + 1, self.config.rounds + 1):
            record, timing = self._round(round)
            self.records.append(record)
            if self.directory:
                self.directory.append(record, timing)
                if round % self.config.checkpoint_every == 0 or round == self.config.rounds:
                    self.directory.save(Snapshot(round, self.model.tensors(), self.server, self.states))
            for callback in self.callbacks:
                callback.on_round(record, timing)
        where = self.directory.path if self.directory else None
        result = Result(self.records, self.header, self.model, self.federation.network, where)
        if self.directory:
            self.directory.finish(result.summary())
        for callback in self.callbacks:
            callback.on_end(result)
        return result

    def _restore(self) -> None:
        """Take up a run that is already on disk, or write the header of a new one."""
        if self.directory is None:
            return
        snapshot, self.records = self.directory.restore(self.federation.device)
        if snapshot is None:
            self.directory.write_header(self.header)
            return
        before = self.directory.header()
        for part in ("data", "partition"):
            if before[part]["fingerprint"] != self.header[part]["fingerprint"]:
                raise RunError(f"{self.directory.path} was run with a different {part}: its fingerprint does not match")
        for change in changed_versions(before, self.header):
            log.warning("resuming with %s: the bits of later rounds may differ", change)
        if snapshot.model.keys() != self.model.tensors().keys():
            raise RunError(f"{self.directory.path} holds a checkpoint of another model")
        self.header = before
        self.model = self.model.updated(snapshot.model)
        self.server, self.states = dict(snapshot.server), snapshot.clients

    def _round(self, round: int) -> tuple[Record, Record]:
        """Sample, train, aggregate, evaluate."""
        config, began = self.config, time.perf_counter()
        cohort = sample_cohort(config.clients, config.participation, config.seed_of("sampling"), round)
        tasks = [self._task(client) for client in cohort]
        updates = self.engine.train(
            self.model, tasks, self.method, self.recipe, seed=config.seed, round=round, broadcast=self.server
        )
        trained = time.perf_counter()
        accepted, left_out = self._finite(round, updates)
        start, outputs = self.model, self._aggregate(accepted)
        samples = sum(task.samples for task in tasks) * config.epochs
        shown = self.model if outputs.evaluated is None else self.model.updated(outputs.evaluated)
        seen = evaluate(self.federation.network, shown, self.data, self.federation.data.classes)
        record: Record = {
            "round": round,
            "accuracy": seen.accuracy,
            "loss": seen.loss,
            "per_class": seen.per_class,
            "cohort": cohort,
            "left_out": left_out,
            "train_loss": sum(u.loss * u.samples for u in accepted) / sum(u.samples for u in accepted),
            "server": outputs.metrics,
        }
        if round % config.local_every == 0 or round == config.rounds:
            record["local"] = self._local(start, accepted)
        ended = time.perf_counter()
        timing = {
            "round": round,
            "seconds": ended - began,
            "train_seconds": trained - began,
            "samples": samples,
            "samples_per_second": samples / (trained - began),
        }
        return record, timing

    def _task(self, client: int) -> ClientTask:
        split, device = self.federation.split, self.federation.device
        return ClientTask(
            client,
            torch.from_numpy(split.indices[client]).to(device),
            torch.from_numpy(split.counts[client]).to(device, self.data.dtype),
            self.states.get(client),
        )

    def _finite(self, round: int, updates: Sequence[Update]) -> tuple[list[Update], list[int]]:
        """Updates that count, and the clients left out because theirs is not finite."""
        accepted = [u for u in updates if u.is_finite()]
        left_out = [u.client for u in updates if not u.is_finite()]
        if not accepted:
            raise RunError(
                f"round {round}: no client's update is finite (clients {', '.join(map(str, left_out))}); the run stops "
                "before it is harmed: lower lr, or check the data and the method's values"
            )
        if left_out:
            log.warning("round %d: left out %s, not finite", round, ", ".join(f"client {c}" for c in left_out))
        for update in accepted:
            self.states.put(update.client, update.kept)
        return accepted, left_out

    def _aggregate(self, updates: Sequence[Update]) -> ServerOutputs:
        """The next global model, by the method's rule for parameters and the policy for buffers."""
        config, start = self.config, self.model
        total = int(self.federation.split.sizes.sum())
        weights = client_weights([u.samples for u in updates], config.aggregation_weights, total)
        outputs = self.method.server.combine(
            ServerInputs(
                start.params,
                [u.state.params for u in updates],
                weights,
                self.server,
                [u.steps for u in updates],
                config.lr,
            )
        )
        buffers = combine_buffers([u.state.buffers for u in updates], weights, start.buffers, config.buffers)
        self.model = start.updated({**outputs.params, **buffers})
        self.server = dict(outputs.state)
        return outputs

    def _local(self, start: ModelState, updates: Sequence[Update]) -> Record:
        """What local training did to the classes each client lacks, has few or many of."""
        network, classes = self.federation.network, self.federation.data.classes
        before = evaluate(network, start, self.data, classes)
        clients, confusion = [], {}
        for update in updates:
            after = evaluate(network, update.state, self.data, classes)
            counts = self.federation.split.counts[update.client]
            clients.append(
                {
                    "client": update.client,
                    "accuracy": after.accuracy,
                    "per_class": after.per_class,
                    "before": group_accuracy(before.per_class, counts),
                    "after": group_accuracy(after.per_class, counts),
                }
            )
            if update.client in self.config.confusion:
                confusion[str(update.client)] = after.confusion.tolist()
        return {
            "before_per_class": before.per_class,
            "before": summarise_groups(clients, "before"),
            "after": summarise_groups(clients, "after"),
            "drift_diversity": drift_diversity(start.params, [u.state.params for u in updates]),
            "clients": clients,
            "confusion": confusion,
        }


def _load(section: Mapping[str, Any]) -> FederatedData:
    """The data set of a config section, its keys checked."""
    known = inspect.signature(load_dataset).parameters
    for key in section:
        if key not in known:
            raise unknown("key in data:", key, known)
    return load_dataset(**section)


def run_config(config: RunConfig, out: str | Path | None, callbacks: Sequence[Callback] = ()) -> Result:
    """Run what a configuration describes: the whole of `fedvls run`."""
    federation = Federation.from_config(config)
    keys = ("method", "rounds", "epochs", "start", "clients", "data", "partition", "model", "sampling")
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
