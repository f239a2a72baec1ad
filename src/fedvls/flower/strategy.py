"""The strategy: Flower's loop around the simulator's arithmetic.

Flower's own FedAvg adds float32 products in the order in which answers arrive, averages integer counters and draws
nodes from the global generator; ours adds in float64 by site number and samples by (seed, round), so that a deployment
ends with the simulator's weights. The client side is Flower's contract, so the stock strategies work with it too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from ..clients import sample_cohort
from ..engines.base import Update
from ..errors import RunError
from ..programs import Group
from ..rounds import aggregate
from .messages import ARRAYS, CONFIG, METRICS, Order, Tensors, down, to_record, to_tensors
from .nodes import Nodes
from .round import Answers, SiteScores
from .settings import Plan
from .validation import Expected, Refused

log = logging.getLogger("fedvls")


class MethodStrategy(Strategy):
    """One method, its server rule and its state. `done` rounds were run before this start of the loop."""

    def __init__(self, plan: Plan, group: Group, classes: int, run: str, done: int, accepted: list[int]) -> None:
        self.plan, self.group, self.classes, self.run, self.done = plan, group, classes, run, done
        self.accepted = list(accepted)
        """For every site the last round in which its update counted."""
        self.nodes = Nodes()
        self.answers = Answers()
        """Of the round in progress."""
        self._orders: list[Message] = []
        self.scores = SiteScores()

    def summary(self) -> None:
        about = self.plan.method.describe
        log.info("method %s, server rule %s, %d rounds done before", about["name"], about["server"], self.done)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The model to every site of the round's cohort."""
        round, settings = self.done + server_round, self.plan.server
        device = next(iter(self.group.model.params.values())).device
        # What arrives here may be more than what was aggregated: a privacy wrapper has added its noise.
        self.group = replace(self.group, model=self.group.model.updated(to_tensors(arrays, device)))
        nodes = self.nodes.wait(grid, self.plan.min_sites, settings.wait, round)
        nodes = self._cohort(nodes, grid, round)
        self.answers, self.scores = Answers(asked=tuple(nodes)), SiteScores()
        order = Order(round, self.run, tuple(self.accepted))
        content = down(arrays, self.group.broadcast, order.write(config))
        self._orders = [Message(content, dst_node_id=node, message_type=MessageType.TRAIN) for node in nodes]
        return self._orders

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The method's server rule over the updates that pass; the others are named and left out."""
        round = self.done + server_round
        self.answers = self._read(round, replies)
        updates = self.answers.updates
        if len(updates) < self.plan.server.min_updates:
            raise RunError(
                f"round {round}: {len(updates)} of {len(self.answers.asked)} updates can be used, "
                f"{self.plan.server.min_updates} are needed ({self.answers.reasons() or 'nobody answered'}); "
                "run again to continue from the round before"
            )
        total = sum(u.samples for u in updates)
        self.group, outputs = aggregate(self.plan.method, self.group, updates, total, self.plan.config.buffers)
        self.answers = replace(self.answers, outputs=outputs)
        for update in updates:
            self.accepted[update.client] = round
        return to_record(self.group.model.tensors()), MetricRecord({"updates": len(updates)})

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The new model to every connected site, in the rounds that are evaluated."""
        every, round = self.plan.server.evaluate_every, self.done + server_round
        if every == 0 or (round % every and round != self.plan.config.rounds):
            return []
        config["server-round"] = round
        shown = {**to_tensors(arrays, next(iter(self.group.model.params.values())).device), **self.evaluated}
        content = RecordDict({ARRAYS: to_record(shown), CONFIG: config})
        return [Message(content, dst_node_id=node, message_type=MessageType.EVALUATE) for node in grid.get_node_ids()]

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """The sites' own accuracies, and their mean over samples."""
        expected = Expected(self.plan, self.group.model, {})
        for reply in replies:
            try:
                if reply.has_error():
                    raise Refused(one_line(reply))
                metrics = reply.content.metric_records[METRICS]
                self.scores.add(expected.site(metrics), metrics, self.plan.server.max_samples)
            except (Refused, KeyError) as refusal:
                log.warning("%s: its evaluation is left out: %s", self.nodes.name(reply.metadata.src_node_id), refusal)
        return self.scores.mean()

    @property
    def evaluated(self) -> Tensors:
        """Parameters that the rule wants evaluated in place of the next start, if it does."""
        outputs = self.answers.outputs
        return dict(outputs.evaluated or {}) if outputs is not None else {}

    def _cohort(self, nodes: list[int], grid: Grid, round: int) -> list[int]:
        """The nodes of this round's sites; everybody without asking where everybody takes part."""
        config = self.plan.config
        if config.participation == 1:
            return nodes
        self.nodes.ask(grid, nodes, self.plan.server.timeout)
        chosen = sample_cohort(config.clients, config.participation, config.seed_of("sampling"), round)
        cohort = [node for node in nodes if self.nodes.sites.get(node) in chosen]
        if not cohort:
            raise RunError(f"round {round}: none of the sites drawn for it ({chosen}) is connected")
        return cohort

    def _sender(self, reply: Message) -> int:
        """The node that was asked; for one that has gone, Flower's server answers in its own name."""
        asked = {order.metadata.message_id: order.metadata.dst_node_id for order in self._orders}
        sender = int(reply.metadata.src_node_id)
        return sender if sender in self.answers.asked else asked.get(reply.metadata.reply_to_message_id, sender)

    def _read(self, round: int, replies: Iterable[Message]) -> Answers:
        """Sort the answers into updates and refusals."""
        expected = Expected.of(self.plan, self.group, self.classes)
        updates: dict[int, Update] = {}
        refused: dict[str, str] = {}
        silent = set(self.answers.asked)
        for node, reply in sorted(((self._sender(reply), reply) for reply in replies), key=lambda pair: pair[0]):
            silent.discard(node)
            try:
                if reply.has_error():
                    raise Refused(f"no answer: {one_line(reply)}")
                if METRICS in reply.content.metric_records:
                    self.nodes.sites[node] = expected.site(reply.content.metric_records[METRICS])
                update = expected.read(reply.content)
                if update.client in updates:
                    raise Refused(f"site {update.client} has answered already: two nodes have the same number")
                updates[update.client] = update
            except Refused as refusal:
                refused[self.nodes.name(node)] = str(refusal)
        for node in sorted(silent):
            refused[self.nodes.name(node)] = f"no answer within {self.plan.server.timeout:g} s"
        for name, reason in refused.items():
            log.warning("round %d: the update of %s does not count: %s", round, name, reason)
        return Answers(self.answers.asked, [updates[site] for site in sorted(updates)], refused)


def one_line(reply: Message) -> str:
    """Why a node could not answer: the last line of what it said, which is the error itself in a traceback."""
    lines = [line.strip() for line in (reply.error.reason or "").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no reason given"
