"""Updates are looked at before they count: a site that sends nonsense changes nothing and is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from flwr.app import ArrayRecord, MetricRecord, RecordDict
from torch import Tensor

from ..engines.base import Update
from ..exchange import Outcome
from ..flat import square_norms
from ..models.network import ModelState, Network
from ..programs import Group
from .messages import ARRAYS, METRICS, SAMPLES, SENT, TRAIN_METRICS, Tensors, to_tensors
from .settings import Plan


class Refused(Exception):
    """An update that does not count; the text says why."""


@dataclass(frozen=True)
class Expected:
    """What a good update looks like in this round."""

    plan: Plan
    start: ModelState
    sent: Mapping[str, Tensor]
    """Names, shapes and types of what the method sends beside the model."""

    @staticmethod
    def of(plan: Plan, group: Group, classes: int) -> Expected:
        """For the model and broadcast of a group."""
        return Expected(plan, group.model, _sent_like(plan, group, classes))

    def read(self, content: RecordDict) -> Update:
        """The update in an answer, or `Refused`."""
        metrics = content.metric_records.get(METRICS)
        if metrics is None:
            raise Refused(f"it has no record {METRICS!r}")
        site = self.site(metrics)
        samples, steps, seen = (_whole(metrics, name) for name in (SAMPLES, "steps", "seen"))
        if not 1 <= samples <= self.plan.server.max_samples:
            raise Refused(f"{SAMPLES} = {samples} is not between 1 and {self.plan.server.max_samples}")
        if steps < 1 or seen < 1:
            raise Refused(f"steps = {steps} and seen = {seen} must be at least 1")
        loss = metrics.get("train-loss")
        if not isinstance(loss, float):
            raise Refused(f"train-loss = {loss!r} is not a number")
        tensors = self._like(self.start.tensors(), content.array_records.get(ARRAYS), ARRAYS)
        sent = self._like(self.sent, content.array_records.get(SENT, ArrayRecord()), SENT)
        update = Update(site, samples, steps, seen, loss, self.start.updated(tensors), {}, sent)
        if not np.isfinite(loss) or not update.is_finite():
            raise Refused("it is not finite")
        self._check_norm(update)
        return update

    def site(self, metrics: MetricRecord) -> int:
        """The number of the site that answers."""
        site = _whole(metrics, TRAIN_METRICS[1])
        if not 0 <= site < self.plan.config.clients:
            raise Refused(f"site = {site} is not between 0 and {self.plan.config.clients - 1}")
        return site

    def _like(self, wanted: Mapping[str, Tensor], record: ArrayRecord | None, where: str) -> Tensors:
        """The record's tensors if they have the wanted names, shapes and types."""
        if record is None:
            raise Refused(f"it has no record {where!r}")
        if set(record) != set(wanted):
            odd = sorted(set(record) ^ set(wanted))
            raise Refused(f"{where}: {odd[0]!r} is {'missing' if odd[0] in wanted else 'not expected'}")
        device = next(iter(self.start.params.values())).device
        try:
            tensors = to_tensors(record, device)
        except (ValueError, TypeError, OSError, EOFError, SyntaxError) as error:
            raise Refused(f"{where} cannot be read: {error}") from None
        for name, tensor in tensors.items():
            like = wanted[name]
            if tensor.shape != like.shape:
                raise Refused(f"{where}: {name!r} has shape {tuple(tensor.shape)}, not {tuple(like.shape)}")
            if tensor.dtype != like.dtype:
                raise Refused(f"{where}: {name!r} has type {tensor.dtype}, not {like.dtype}")
        return {name: tensors[name] for name in wanted}

    def _check_norm(self, update: Update) -> None:
        bound = self.plan.server.max_norm
        if bound:
            change = {k: v.double() - self.start.params[k].double() for k, v in update.state.params.items()}
            norm = square_norms([change])[0] ** 0.5
            if not norm <= bound:
                raise Refused(f"its change of the model has norm {norm:.4g}, above server.max_norm = {bound:g}")


def _whole(metrics: MetricRecord, name: str) -> int:
    value = metrics.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Refused(f"{name} = {value!r} is not a whole number")
    return value


def _sent_like(plan: Plan, group: Group, classes: int) -> Mapping[str, Tensor]:
    """What the method's exchange would send for a client that has not moved: the names and shapes of any upload."""
    exchange = plan.method.exchange
    if exchange is None:
        return {}
    sums = counts = None
    if exchange.collects_features:
        some = next(iter(group.model.params.values()))
        sums, counts = some.new_zeros(classes, _width(group.network)), some.new_zeros(classes)
    recipe = group.recipe
    outcome = Outcome(group.model, group.model, 1, recipe.lr, recipe.momentum, {}, group.broadcast, sums, counts)
    return exchange.finish(outcome)[1]


def _width(network: Network) -> int:
    """Length of a feature vector: the input of the classifier."""
    head = network.prototype.get_submodule(network.classifier)
    weight = getattr(head, "weight", None)
    assert isinstance(weight, torch.Tensor)
    return int(weight.shape[-1])
