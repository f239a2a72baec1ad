"""A deployment on the server's disk: the same run folder as the simulator's, checkpointed and resumed by round."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from ..data import FederatedData
from ..data.resident import ResidentData
from ..errors import RunError, UsageError
from ..evaluation import evaluate
from ..models.network import ModelState
from ..numerics import DTYPES, repeatable, resolve_device
from ..programs import Group
from ..rounds import round_record
from ..runs.checkpoint import GroupTensors, Snapshot
from ..runs.files import exclusive
from ..runs.header import header_of
from ..runs.result import Result
from ..runs.start import load_start
from ..runs.store import Record, RunDirectory
from .messages import to_record, to_tensors
from .privacy import check_private
from .settings import Plan
from .strategy import MethodStrategy

log = logging.getLogger("fedvls")
Wrap = Callable[[Strategy], Strategy]


class Deployment:
    """One run: its folder, the model between rounds, and what is written after each."""

    def __init__(self, plan: Plan, data: FederatedData | None) -> None:
        config, sites = plan.config, plan.sites
        self.plan, self.data = plan, data
        self.device = resolve_device(config.device, config.dtype)
        self.classes = data.classes if data else sites.number_of_classes
        self.shape = data.sample_shape if data else sites.shape
        if not self.classes or not self.shape:
            raise UsageError(
                "the server does not know the data: set sites.sample_shape and sites.classes (or sites.class_names), "
                "or give it test data with server.test_data"
            )
        if data is None and plan.server.evaluate_every != 1:
            raise UsageError("without server.test_data the sites must evaluate every round: server.evaluate_every = 1")
        vocabulary = data.vocabulary if data else sites.vocabulary or None
        dtype = DTYPES[config.dtype]
        self.network = plan.network(self.shape, self.classes, vocabulary)
        start, _ = load_start(config.start, self.network, self.device, dtype)
        self.resident = ResidentData(data, self.device, dtype) if data else None
        everyone = frozenset(range(config.clients))
        self.group = Group(everyone, self.network, start, config.recipe(), config.aggregation_weights)
        self.header = self._header(start)
        self.records: list[Record] = []
        self.directory = _run_directory(plan)

    def run(self, grid: Grid, wrap: Wrap | None = None) -> Result:
        """The rounds that are left."""
        config = self.plan.config
        with exclusive(self.directory.path), repeatable(self.device, config.threads, config.dtype):
            self._restore()
            left = config.rounds - len(self.records)
            log.info("%s: round %d of %d is next", self.directory.path, len(self.records) + 1, config.rounds)
            if left > 0:
                self._rounds(grid, left, wrap)
            result = Result(self.records, self.header, self.group.model, self.network, self.directory.path)
            self.directory.finish(result.summary())
            return result

    def _rounds(self, grid: Grid, left: int, wrap: Wrap | None) -> None:
        run = str(self.header["deployment"]["run"])
        strategy = MethodStrategy(self.plan, self.group, self.classes, run, len(self.records), self._accepted())
        began = time.perf_counter()

        def close(server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
            """Called by Flower's loop when a round is over, with the model that the next one starts from."""
            nonlocal began
            if server_round == 0:
                return None
            record, timing = self._close(strategy, arrays, time.perf_counter() - began)
            began = time.perf_counter()
            self.directory.append(record, timing)
            model = self.group.model.tensors()
            part = GroupTensors(model, self.group.state, self.group.broadcast)
            self.directory.save(Snapshot(record["round"], [part]))
            return MetricRecord({"accuracy": record["accuracy"], "loss": record["loss"]})

        loop = wrap(strategy) if wrap else strategy
        check_private(loop, self.plan, self.group.model)
        loop.start(
            grid,
            to_record(self.group.model.tensors()),
            num_rounds=left,
            timeout=self.plan.server.timeout,
            evaluate_fn=close,
        )

    def _close(self, strategy: MethodStrategy, arrays: ArrayRecord, seconds: float) -> tuple[Record, Record]:
        """The record of the round that is over."""
        answers, round = strategy.answers, len(self.records) + 1
        if answers.outputs is None:
            raise RunError(f"round {round}: a privacy wrapper refused the round's answers; run again to repeat it")
        self.group = replace(strategy.group, model=strategy.group.model.updated(to_tensors(arrays, self.device)))
        seen = self._seen(round, self.group.model.updated(answers.outputs.evaluated or {}), strategy)
        record = round_record(round, seen, answers.cohort, answers.left_out, answers.updates, answers.outputs.metrics)
        if answers.refused:
            record["refused"] = dict(answers.refused)
        if strategy.scores.sites:
            record["sites"] = strategy.scores.record()
        self.records.append(record)
        samples = sum(u.seen for u in answers.updates)
        return record, {
            "round": round,
            "seconds": seconds,
            "train_seconds": seconds,
            "samples": samples,
            "samples_per_second": samples / seconds,
        }

    def _seen(self, round: int, model: ModelState, strategy: MethodStrategy) -> dict[str, Any]:
        """Accuracy and loss: on the server's test data if it has any, else the sites' mean."""
        if self.resident is not None:
            return evaluate(self.network, model, self.resident, self.classes).record()
        mean = strategy.scores.mean()
        if mean is None:
            raise RunError(f"round {round}: no site has evaluated the model; run again to repeat the round")
        return {"accuracy": mean["accuracy"], "loss": mean["loss"], "per_class": []}

    def _accepted(self) -> list[int]:
        """For every site the last round in which its update counted."""
        last = [0] * self.plan.config.clients
        for record in self.records:
            for site in set(record["cohort"]) - set(record["left_out"]):
                last[site] = record["round"]
        return last

    def _restore(self) -> None:
        snapshot, self.records = self.directory.restore(self.device)
        if snapshot is None:
            self.directory.write_header(self.header)
            return
        (part,) = snapshot.groups
        model = self.group.model
        if model.tensors().keys() != part.model.keys():
            raise RunError(f"{self.directory.path} holds a checkpoint of another model")
        self.header = self.directory.header()
        self.group = replace(self.group, model=model.updated(part.model), state=part.server, broadcast=part.broadcast)
        log.info("%s: continued after round %d", self.directory.path, snapshot.round)

    def _header(self, start: ModelState) -> dict[str, Any]:
        """As the simulator's; what only the sites know is null or empty."""
        plan = self.plan
        unseen = {"name": plan.config.data["name"], "class_names": list(plan.sites.names), "fingerprint": None}
        about = self.data.describe() if self.data else unseen
        data = {**about, "classes": self.classes, "sample_shape": list(self.shape), "train_samples": None}
        partition = {
            **plan.config.partition,
            "seed": plan.config.seed_of("partition"),
            "clients": plan.config.clients,
            "classes": self.classes,
            "sizes": [],
            "vacant_per_client": None,
            "vacant": [],
            "counts": [],
            "fingerprint": None,
        }
        header = header_of(
            plan.config, data, partition, self.network, start, plan.method, "flower", "a deployment", self.device
        )
        evaluated = "the server's test data" if self.data else "the sites' own test data, mean over samples"
        return {**header, "deployment": {"run": secrets.token_hex(8), "evaluated_on": evaluated}}


def _run_directory(plan: Plan) -> RunDirectory:
    """Here, at the server; a relative path starts where the SuperLink was started."""
    try:
        return RunDirectory.prepare(Path(plan.server.run_dir).expanduser().absolute(), plan.config)
    except RunError as error:
        raise RunError(f"server.run_dir, on the server's machine: {error}") from None
