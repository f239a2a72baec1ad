"""The reference engine: one client after another, plain eager PyTorch. Every other engine is measured against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from .. import rng
from ..augment import Augmentation
from ..data.resident import ResidentData
from ..losses.term import ClientStatistics, LossInputs, as_objective
from ..models.dropout import keyed
from ..models.network import ModelState, Network
from ..recipe import Recipe
from ..steps import StepContext
from .base import ClientTask, RoundJob, Tensors, Update, finished, mean_loss
from .epochs import Minibatch, client_batches


class SequentialEngine:
    """Readable and exact."""

    name = "sequential"

    def __init__(self, network: Network, data: ResidentData, augmentation: Augmentation) -> None:
        self.network, self.data, self.augmentation = network, data, augmentation

    def train(self, job: RoundJob, cohort: Sequence[ClientTask]) -> list[Update]:
        """Train each client of the cohort from the job's model."""
        updates = []
        for task in cohort:
            with rng.torch_draws(self.data.device, job.seed, "library", job.round, task.client):
                updates.append(self._train_client(job, task))
        return updates

    def close(self) -> None:
        """Nothing to give back."""

    def _train_client(self, job: RoundJob, task: ClientTask) -> Update:
        recipe = job.recipe
        client = _Client(self.network, job, task)
        optimizer = _optimizer(client.local, recipe, task.kept)
        context = StepContext(job.broadcast, task.kept)
        losses: list[Tensor] = []
        seen = 0
        has = {"batch_norm": self.network.has_batch_norm, "dropout": self.network.has_dropout}
        for minibatch in client_batches(self.data, self.augmentation, job, task, **has):
            gradient = _Gradient(client, minibatch)
            direction = job.method.step.direction(gradient, client.local.params, context)
            for name, parameter in client.local.params.items():
                parameter.grad = direction[name]
            optimizer.step()
            losses.append(gradient.losses[0])
            seen += len(minibatch.labels)
            if client.collects_features and minibatch.epoch == recipe.epochs - 1:
                client.collect(gradient)

        trained = client.local.updated({name: p.detach() for name, p in client.local.params.items()})
        kept = _momentum_buffers(client.local, optimizer) if recipe.persistent_momentum else {}
        return finished(
            job, task, trained, mean_loss(losses), len(losses), seen, kept, (client.feature_sums, client.feature_counts)
        )


class _Client:
    """The models a client has at hand: the one it trains, the one it received, the one it ended with last time."""

    def __init__(self, network: Network, job: RoundJob, task: ClientTask) -> None:
        self.network, self.task, self.broadcast = network, task, job.broadcast
        self.objective = as_objective(job.method.objective)
        self.needs = self.objective.needs
        self.local, self.teacher = job.start.copy(), job.start.copy()
        for parameter in self.local.params.values():
            parameter.requires_grad_()
        self.teacher_trains = job.recipe.teacher_mode == "train"
        before = {k.removeprefix("previous/"): t for k, t in task.kept.items() if k.startswith("previous/")}
        self.previous = job.start.updated(before) if before else None
        exchange = job.method.exchange
        self.collects_features = exchange is not None and exchange.collects_features
        self.feature_sums: Tensor | None = None
        self.feature_counts: Tensor | None = None

    @torch.no_grad()
    def reference_inputs(self, x: Tensor, labels: Tensor) -> LossInputs:
        """Everything about a minibatch that does not depend on the weights being trained."""
        teacher_logits = teacher_features = previous_features = None
        if "teacher_features" in self.needs:
            teacher_logits, teacher_features = self.network.logits_and_features(
                self.teacher, x, train=self.teacher_trains
            )
        elif "teacher_logits" in self.needs:
            teacher_logits = self.network.logits(self.teacher, x, train=self.teacher_trains)
        if "previous_features" in self.needs:
            previous_features = teacher_features
            if self.previous is not None:
                _, previous_features = self.network.logits_and_features(self.previous, x, train=False)
        return LossInputs(
            logits=x,  # replaced at every point
            labels=labels,
            sample_mask=torch.ones_like(labels, dtype=torch.bool),
            client=ClientStatistics(self.task.counts),
            teacher_logits=teacher_logits,
            teacher_features=teacher_features,
            previous_features=previous_features,
            has_previous=torch.tensor(self.previous is not None, device=labels.device),
            teacher_params=self.teacher.params,
            received=self.broadcast,
        )

    def collect(self, gradient: _Gradient) -> None:
        """Add a minibatch's features to the sums per class."""
        features = gradient.features
        assert features is not None
        classes = self.task.counts.shape[-1]
        if self.feature_sums is None or self.feature_counts is None:
            self.feature_sums = features.new_zeros(classes, features.shape[-1])
            self.feature_counts = features.new_zeros(classes)
        labels = gradient.inputs.labels
        self.feature_sums.index_add_(0, labels, features)
        self.feature_counts.index_add_(0, labels, torch.ones_like(labels, dtype=features.dtype))


class _Gradient:
    """The objective's gradient on one minibatch, at any point; with the same dropout masks at all of them."""

    def __init__(self, client: _Client, minibatch: Minibatch) -> None:
        self.client, self.x, self.key = client, minibatch.x, minibatch.key
        self.inputs = client.reference_inputs(minibatch.x, minibatch.labels)
        self.losses: list[Tensor] = []
        self.features: Tensor | None = None

    def __call__(self, point: Tensors, update_statistics: bool = True) -> Tensors:
        client = self.client
        buffers = client.local.buffers
        if not update_statistics:
            buffers = {k: b.clone() for k, b in buffers.items()}
        if not all(p.requires_grad for p in point.values()):
            point = {name: p.detach().requires_grad_() for name, p in point.items()}
        state = ModelState(point, client.local.frozen, buffers)
        features = None
        with keyed(self.key):
            if "features" in client.needs or client.collects_features:
                logits, features = client.network.logits_and_features(state, self.x, train=True)
            else:
                logits = client.network.logits(state, self.x, train=True)
        loss = client.objective(replace(self.inputs, logits=logits, features=features, params=point))
        if not self.losses and features is not None:
            self.features = features.detach()
        self.losses.append(loss.detach())
        gradients = torch.autograd.grad(loss, list(point.values()), allow_unused=True)
        return {
            name: torch.zeros_like(p) if g is None else g for (name, p), g in zip(point.items(), gradients, strict=True)
        }


def _optimizer(local: ModelState, recipe: Recipe, kept: Mapping[str, Tensor]) -> torch.optim.SGD:
    optimizer = torch.optim.SGD(
        local.params.values(), lr=recipe.lr, momentum=recipe.momentum, weight_decay=recipe.weight_decay
    )
    if recipe.persistent_momentum:
        for name, parameter in local.params.items():
            if f"momentum/{name}" in kept:
                optimizer.state[parameter]["momentum_buffer"] = kept[f"momentum/{name}"].clone()
    return optimizer


def _momentum_buffers(local: ModelState, optimizer: torch.optim.SGD) -> Tensors:
    buffers = {name: optimizer.state[p].get("momentum_buffer") for name, p in local.params.items()}
    return {f"momentum/{name}": buffer.clone() for name, buffer in buffers.items() if buffer is not None}
