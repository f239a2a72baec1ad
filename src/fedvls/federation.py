"""A federation: data shared among clients, a model, and the round loop, which exists here and nowhere else."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .aggregation import ServerInputs, ServerOutputs, client_weights, combine_buffers
from .augment import Augmentation, choose_augmentation
from .callbacks import Callback
from .clients import ClientStates, sample_cohort
from .data import FederatedData, load_dataset
from .data.resident import ResidentData
from .engines import ClientTask, Engine, Update, choose
from .errors import RunError, UsageError, unknown
from .evaluation import Evaluation, drift_diversity, evaluate
from .groups import group_accuracy, summarise_groups
from .method import Method, from_spec, get_method
from .models import build_network, complete_spec
from .models.network import ModelState, Network
from .numerics import DTYPES, repeatable, resolve_device
from .partition import PARTITIONS, Partition, dirichlet, get_partition, given
from .programs import Group, Setting
from .runs.checkpoint import GroupTensors, Snapshot
from .runs.config import RunConfig
from .runs.files import exclusive
from .runs.header import build_header, changed_versions
from .runs.result import Result
from .runs.start import load_start
from .runs.store import Record, RunDirectory, fresh_folder

log = logging.getLogger("fedvls")


class Federation:
    """Clients, their data and the model they train together.

    data: a `FederatedData`, a data set's name or the path of an .npz; partition: e.g. `dirichlet(beta=0.05)` (default:
    the clients the data come with, if they do); clients: how many (default: as many as the data have, or 10);
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
        self.device = resolve_device(device)
        self._resident = ResidentData(self.data, self.device, DTYPES[dtype])
        choose(
            engine, self.network, self._resident, self.augmentation
        )  # an unknown engine is an error now, not after an hour

    @staticmethod
    def from_config(config: RunConfig) -> Federation:
        """The federation a configuration describes."""
        for name in (config.data["name"], config.model["name"], config.partition["name"], config.start):
            if str(name).startswith(("in memory:", "own module:", "own partition:")):
                raise RunError(
                    f"this run uses something that exists in Python only ({name}): continue it from Python, "
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
        with (
            exclusive(directory.path) if directory else nullcontext(),
            repeatable(self.device, config.threads),
        ):
            return _Run(self, config, built, network, first, directory, callbacks).complete()

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
        network: Network,
        start: ModelState,
        directory: RunDirectory | None,
        callbacks: Sequence[Callback],
    ) -> None:
        self.federation, self.config, self.method = federation, config, method
        self.directory, self.callbacks, self.data = directory, callbacks, federation._resident
        self.states = ClientStates()
        self.records: list[Record] = []
        self.setting = Setting(
            network,
            start,
            federation.split,
            self.data,
            config.recipe(),
            config.aggregation_weights,
            federation.data.classes,
            config.rounds,
            config.seed,
        )
        self.rounds = method.program.total_rounds(config.rounds)
        self.groups = method.program.groups(self.setting, 1)
        self._engines: dict[Network, Engine] = {}
        engine, reason = choose(config.engine, network, self.data, federation.augmentation)
        self._engines[network] = engine
        self.header = build_header(
            config, federation.data, federation.split, network, start, method, engine.name, reason, federation.device
        )

    def complete(self) -> Result:
        """Run the rounds that are left."""
        self._restore()
        for callback in self.callbacks:
            callback.on_start(self.header, self.rounds, len(self.records))
        for round in range(len(self.records) + 1, self.rounds + 1):
            record, timing = self._round(round)
            self.records.append(record)
            if self.directory:
                self.directory.append(record, timing)
                if round % self.config.checkpoint_every == 0 or round == self.rounds:
                    parts = [GroupTensors(g.model.tensors(), g.state, g.broadcast) for g in self.groups]
                    self.directory.save(Snapshot(round, parts, self.states))
            for callback in self.callbacks:
                callback.on_round(record, timing)
        where = self.directory.path if self.directory else None
        network, model = self.method.program.shown(self.setting, self.groups)
        result = Result(self.records, self.header, model, network, where)
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
        self.header = before
        groups = self.method.program.groups(self.setting, snapshot.round)
        names = [g.model.tensors().keys() for g in groups]
        if names != [part.model.keys() for part in snapshot.groups]:
            raise RunError(f"{self.directory.path} holds a checkpoint of another model")
        self.groups = [
            replace(group, model=group.model.updated(part.model), state=part.server, broadcast=part.broadcast)
            for group, part in zip(groups, snapshot.groups, strict=True)
        ]
        self.states = snapshot.clients

    def _round(self, round: int) -> tuple[Record, Record]:
        """Sample, train, aggregate, evaluate."""
        config, program, began = self.config, self.method.program, time.perf_counter()
        if round > 1:
            self.groups = program.advance(self.setting, round, self.groups)
        cohort = sample_cohort(config.clients, config.participation, config.seed_of("sampling"), round)
        trained = [self._train(group, cohort, round) for group in self.groups]
        train_seconds = time.perf_counter() - began
        accepted, left_out = self._finite(round, trained)
        started, metrics = self.groups, dict[str, float]()
        shown: ModelState | None = None
        for number, updates in enumerate(accepted):
            if updates:
                self.groups, outputs = self._aggregate(number, updates)
                metrics |= outputs.metrics
                shown = None if outputs.evaluated is None else self.groups[number].model.updated(outputs.evaluated)
        unfinished = self.groups
        if round == self.rounds:
            self.groups = program.finish(self.setting, self.groups)
        network, model = program.shown(self.setting, self.groups)
        seen = self._evaluate(network, model if shown is None else shown)
        everyone = [update for updates in accepted for update in updates]
        record: Record = {
            "round": round,
            "accuracy": seen.accuracy,
            "loss": seen.loss,
            "per_class": seen.per_class,
            "cohort": cohort,
            "left_out": left_out,
            "train_loss": sum(u.loss * u.samples for u in everyone) / sum(u.samples for u in everyone),
            "server": metrics,
        }
        if seen.per_domain:
            record["domains"] = {**seen.per_domain, "mean": sum(seen.per_domain.values()) / len(seen.per_domain)}
        if self.groups is not unfinished:
            record["before_finish"] = self._evaluate(*program.shown(self.setting, unfinished)).accuracy
        if round % config.local_every == 0 or round == self.rounds:
            record["local"] = self._local(started, accepted)
        samples = sum(u.seen for updates in trained for u in updates)
        timing = {
            "round": round,
            "seconds": time.perf_counter() - began,
            "train_seconds": train_seconds,
            "samples": samples,
            "samples_per_second": samples / train_seconds,
        }
        return record, timing

    def _train(self, group: Group, cohort: Sequence[int], round: int) -> list[Update]:
        """The updates of the group's members in the cohort."""
        if group.network not in self._engines:
            self._engines[group.network], _ = choose(
                self.config.engine, group.network, self.data, self.federation.augmentation
            )
        tasks = [self._task(client) for client in cohort if client in group.clients]
        return self._engines[group.network].train(
            group.model,
            tasks,
            self.method,
            group.recipe,
            seed=self.config.seed,
            round=round,
            broadcast=group.broadcast,
        )

    def _task(self, client: int) -> ClientTask:
        split, device = self.federation.split, self.federation.device
        return ClientTask(
            client,
            torch.from_numpy(split.indices[client]).to(device),
            torch.from_numpy(split.counts[client]).to(device, self.data.dtype),
            self.states.get(client),
        )

    def _finite(self, round: int, trained: Sequence[Sequence[Update]]) -> tuple[list[list[Update]], list[int]]:
        """Updates that count, per group, and the clients left out because theirs is not finite."""
        accepted = [[u for u in updates if u.is_finite()] for updates in trained]
        good = {u.client for updates in accepted for u in updates}
        left_out = sorted(u.client for updates in trained for u in updates if u.client not in good)
        if not good:
            raise RunError(
                f"round {round}: no client's update is finite (clients {', '.join(map(str, left_out))}); the run stops "
                "before it is harmed: lower lr, or check the data and the method's values"
            )
        if left_out:
            log.warning("round %d: left out %s, not finite", round, ", ".join(f"client {c}" for c in left_out))
        for updates in accepted:
            for update in updates:
                self.states.put(update.client, update.kept)
        return accepted, left_out

    def _aggregate(self, number: int, updates: Sequence[Update]) -> tuple[list[Group], ServerOutputs]:
        """The groups with the next model of one of them: the method's rule for parameters, the policy for buffers."""
        config, group = self.config, self.groups[number]
        start, total = group.model, int(self.federation.split.sizes.sum())
        weights = client_weights([u.samples for u in updates], group.weights, total)
        outputs = self.method.server.combine(
            ServerInputs(
                start=start.params,
                clients=[u.state.params for u in updates],
                weights=weights,
                state=group.state,
                sent=[u.sent for u in updates],
                steps=[u.steps for u in updates],
                broadcast=group.broadcast,
                population=len(group.clients),
                lr=group.recipe.lr,
                momentum=group.recipe.momentum,
                epochs=group.recipe.epochs,
            )
        )
        buffers = combine_buffers([u.state.buffers for u in updates], weights, start.buffers, config.buffers)
        model = start.updated({**outputs.params, **buffers})
        changed = replace(group, model=model, state=dict(outputs.state), broadcast=dict(outputs.broadcast))
        return [changed if k == number else g for k, g in enumerate(self.groups)], outputs

    def _evaluate(self, network: Network, model: ModelState) -> Evaluation:
        return evaluate(network, model, self.data, self.federation.data.classes)

    def _local(self, started: Sequence[Group], accepted: Sequence[Sequence[Update]]) -> Record:
        """What local training did to the classes each client lacks, has few or many of."""
        clients, confusion, before_all, moves = [], {}, [], []
        for group, updates in zip(started, accepted, strict=True):
            if not updates:
                continue
            before = self._evaluate(group.network, group.model)
            before_all.append(before.per_class)
            for update in updates:
                after = self._evaluate(group.network, update.state)
                counts = self.federation.split.counts[update.client]
                moves.append((group.model.params, update.state.params))
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
        clients.sort(key=lambda entry: int(str(entry["client"])))
        return {
            "before_per_class": [sum(column) / len(column) for column in zip(*before_all, strict=True)],
            "before": summarise_groups(clients, "before"),
            "after": summarise_groups(clients, "after"),
            "drift_diversity": drift_diversity(moves),
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
