"""The round loop, which exists here and nowhere else: sample, train, aggregate, evaluate, record."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from .aggregation import ServerOutputs
from .augment import Augmentation
from .callbacks import Callback
from .clients import ClientStates, sample_cohort
from .data import FederatedData
from .data.resident import ResidentData
from .engines import ClientTask, Engine, RoundJob, Update, choose
from .engines.base import Evaluator, are_finite
from .engines.memory import give_back, settle
from .engines.samples import to_device
from .errors import RunError
from .evaluation import Evaluation, drift_diversity, evaluate_each
from .groups import group_accuracy, summarise_groups
from .losses.term import ClientStatistics, as_objective
from .method import Method
from .models.network import ModelState, Network
from .partition import Split
from .programs import Group, Setting
from .rounds import aggregate, round_record
from .runs.checkpoint import GroupTensors, Snapshot
from .runs.config import RunConfig
from .runs.header import changed_versions, header_of, partition_facts
from .runs.result import Result
from .runs.store import Record, RunDirectory

log = logging.getLogger("fedvls")


class RoundLoop:
    """One run: the state between rounds, and the rounds."""

    def __init__(
        self,
        config: RunConfig,
        data: FederatedData,
        resident: ResidentData,
        split: Split,
        augmentation: Augmentation,
        method: Method,
        network: Network,
        start: ModelState,
        directory: RunDirectory | None,
        callbacks: Sequence[Callback],
    ) -> None:
        self.config, self.method, self.directory, self.callbacks = config, method, directory, callbacks
        self.data, self.split, self.augmentation = resident, split, augmentation
        self.states = ClientStates()
        self.records: list[Record] = []
        self.setting = Setting(
            network,
            start,
            split,
            resident,
            config.recipe(),
            config.aggregation_weights,
            data.classes,
            config.rounds,
            config.seed,
        )
        self.rounds = method.program.total_rounds(config.rounds)
        self.groups = method.program.groups(self.setting, 1)
        labels = ClientStatistics(torch.from_numpy(split.counts).double())
        self._hears_teacher = as_objective(method.objective).hears_teacher(labels).numpy()
        self._engines: dict[Network, Engine] = {}
        group = self.groups[0]
        engine, reason = self._choose(group, self._job(group, 1))
        self._engines[group.network] = engine
        divided = partition_facts(config, split)
        self.header = header_of(
            config, data.describe(), divided, network, start, method, engine.name, reason, resident.device
        )

    def complete(self) -> Result:
        """Run the rounds that are left."""
        try:
            return self._complete()
        finally:
            settle(self.data.device)
            for engine in self._engines.values():
                engine.close()
            give_back()

    def _complete(self) -> Result:
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
        snapshot, self.records = self.directory.restore(self.data.device)
        if snapshot is None:
            self.directory.write_header(self.header)
            return
        before = self.directory.header()
        for part in ("data", "partition"):
            if before[part]["fingerprint"] != self.header[part]["fingerprint"]:
                raise RunError(f"{self.directory.path} was run with a different {part}: its fingerprint does not match")
        for change in changed_versions(before, self.header) if snapshot.round < self.rounds else []:
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
            before, self.groups = self.groups, program.advance(self.setting, round, self.groups)
            if {group.network for group in before} != {group.network for group in self.groups}:
                self.states = ClientStates()  # what clients kept belongs to another network
        cohort = sample_cohort(config.clients, config.participation, config.seed_of("sampling"), round)
        trained = [self._train(group, cohort, round) for group in self.groups]
        train_seconds = time.perf_counter() - began
        accepted, left_out = self._finite(round, trained)
        started, metrics = self.groups, dict[str, float]()
        shown = self.groups
        for number, updates in enumerate(accepted):
            if updates:
                self.groups, outputs = self._aggregate(number, updates)
                prefix = f"group{number}." if len(self.groups) > 1 else ""
                metrics |= {prefix + name: value for name, value in outputs.metrics.items()}
                shown = _replaced(shown, number, self.groups[number].model.updated(outputs.evaluated or {}))
        unfinished = self.groups
        if round == self.rounds:
            self.groups = program.finish(self.setting, self.groups)
            shown = self.groups if self.groups is not unfinished else shown
        (seen,) = self._evaluate(*program.shown(self.setting, shown))
        everyone = [update for updates in accepted for update in updates]
        record = round_record(round, seen.record(), cohort, left_out, everyone, metrics)
        if self.groups is not unfinished:
            record["before_finish"] = self._evaluate(*program.shown(self.setting, unfinished))[0].accuracy
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
        job = self._job(group, round)
        if group.network not in self._engines:
            self._engines[group.network], _ = self._choose(group, job)
        tasks = self._tasks([client for client in cohort if client in group.clients])
        return self._engines[group.network].train(job, tasks)

    def _choose(self, group: Group, job: RoundJob) -> tuple[Engine, str]:
        """An engine for the group's model, and why this one."""
        smallest = min(group.clients, key=lambda client: (int(self.split.sizes[client]), client))
        return choose(self.config.engine, group.network, self.data, self.augmentation, job, *self._tasks([smallest]))

    def _job(self, group: Group, round: int) -> RoundJob:
        return RoundJob(group.model, self.method, group.recipe, self.config.seed, round, group.broadcast)

    def _tasks(self, clients: Sequence[int]) -> list[ClientTask]:
        """What these clients need for a round; it goes to the device in two transfers for all of them."""
        if not clients:
            return []
        split, device = self.split, self.data.device
        positions = np.concatenate([split.indices[client] for client in clients])
        indices = torch.split(to_device(torch.from_numpy(positions), device), split.sizes[list(clients)].tolist())
        counts = to_device(torch.from_numpy(split.counts[list(clients)]), device).to(self.data.dtype)
        kept = [self.states.get(client) for client in clients]
        hears = self._hears_teacher[list(clients)].tolist()
        return [ClientTask(*each) for each in zip(clients, indices, counts.unbind(), kept, hears, strict=True)]

    def _finite(self, round: int, trained: Sequence[Sequence[Update]]) -> tuple[list[list[Update]], list[int]]:
        """Updates that count, per group, and the clients left out because theirs is not finite."""
        finite = iter(are_finite([u for updates in trained for u in updates]))
        accepted = [[u for u in updates if next(finite)] for updates in trained]
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
        """The groups with the next model of one of them."""
        group = self.groups[number]
        total = int(self.split.sizes[list(group.clients)].sum()) if group.weights == "all" else 0
        changed, outputs = aggregate(self.method, group, updates, total, self.config.buffers)
        return [changed if k == number else g for k, g in enumerate(self.groups)], outputs

    def _evaluate(self, network: Network, *models: ModelState) -> list[Evaluation]:
        """Each model on the test set, by the engine of its network where that can."""
        engine = self._engines.get(network)
        if isinstance(engine, Evaluator):
            return engine.evaluate(models, self.setting.classes)
        return evaluate_each(network, models, self.data, self.setting.classes)

    def _local(self, started: Sequence[Group], accepted: Sequence[Sequence[Update]]) -> Record:
        """What local training did to the classes each client lacks, has few or many of."""
        clients, confusion, before_all, moves = [], {}, [], []
        for group, updates in zip(started, accepted, strict=True):
            if not updates:
                continue
            before, *each = self._evaluate(group.network, group.model, *(u.state for u in updates))
            before_all.append(before.per_class)
            for update, after in zip(updates, each, strict=True):
                counts = self.split.counts[update.client]
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


def _replaced(groups: Sequence[Group], number: int, model: ModelState) -> list[Group]:
    """The groups with another model for one of them."""
    return [replace(g, model=model) if k == number else g for k, g in enumerate(groups)]
