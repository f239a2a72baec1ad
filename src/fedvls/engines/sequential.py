"""The reference engine: one client after another, plain eager PyTorch. Every other engine is measured against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from .. import rng
from ..data.resident import ResidentData
from ..losses.term import ClientStatistics, LossInputs, as_objective
from ..method import Method
from ..models.network import ModelState, Network
from ..steps import StepContext
from .base import ClientTask, Recipe, Tensors, Update
from .batches import epoch_batches


class SequentialEngine:
    """Readable and exact."""

    name = "sequential"

    def __init__(self, network: Network, data: ResidentData) -> None:
        self.network, self.data = network, data

    def train(
        self,
        start: ModelState,
        cohort: Sequence[ClientTask],
        method: Method,
        recipe: Recipe,
        *,
        seed: int,
        round: int,
        broadcast: Mapping[str, Tensor],
    ) -> list[Update]:
        """Train each client of the cohort from `start`."""
        updates = []
        for task in cohort:
            with rng.library_draws(self.data.device, seed, "library", round, task.client):
                updates.append(self._train_client(start, task, method, recipe, seed, round, broadcast))
        return updates

    def _train_client(
        self,
        start: ModelState,
        task: ClientTask,
        method: Method,
        recipe: Recipe,
        seed: int,
        round: int,
        broadcast: Mapping[str, Tensor],
    ) -> Update:
        local, teacher = start.copy(), start.copy()
        for parameter in local.params.values():
            parameter.requires_grad_()
        optimizer = _optimizer(local, recipe, task.kept)
        context = StepContext(broadcast)
        losses: list[Tensor] = []
        steps = 0

        for epoch in range(recipe.epochs):
            batches = epoch_batches(
                task.samples,
                recipe.batch_size,
                seed=seed,
                round=round,
                client=task.client,
                epoch=epoch,
                batch_norm=self.network.has_batch_norm,
            )
            for positions in batches:
                chosen = task.indices[torch.from_numpy(positions).to(task.indices.device)]
                x, labels = self.data.train_batch(chosen)
                gradient = _Gradient(self.network, method, recipe, task, local, teacher, x, labels)
                direction = method.step.direction(gradient, local.params, context)
                for name, parameter in local.params.items():
                    parameter.grad = direction[name]
                optimizer.step()
                steps += 1
                if gradient.first_loss is not None:
                    losses.append(gradient.first_loss)

        trained = local.updated({name: p.detach() for name, p in local.params.items()})
        kept = _momentum_buffers(local, optimizer) if recipe.persistent_momentum else {}
        loss = float(torch.stack(losses).mean())
        return Update(task.client, task.samples, steps, loss, trained, kept)


class _Gradient:
    """The objective's gradient on one minibatch, at any point; the teacher runs once, on first use."""

    def __init__(
        self,
        network: Network,
        method: Method,
        recipe: Recipe,
        task: ClientTask,
        local: ModelState,
        teacher: ModelState,
        x: Tensor,
        labels: Tensor,
    ) -> None:
        self.network, self.objective, self.local, self.teacher, self.x = (
            network,
            as_objective(method.objective),
            local,
            teacher,
            x,
        )
        self.needs = self.objective.needs
        self.first_loss: Tensor | None = None
        teacher_logits = None
        if "teacher_logits" in self.needs:
            with torch.no_grad():
                teacher_logits = network.logits(teacher, x, train=recipe.teacher_mode == "train")
        self.inputs = LossInputs(
            logits=x,  # replaced at every point
            labels=labels,
            sample_mask=torch.ones_like(labels, dtype=torch.bool),
            client=ClientStatistics(task.counts),
            teacher_logits=teacher_logits,
            teacher_params=teacher.params if "teacher_params" in self.needs else None,
        )

    def __call__(self, point: Tensors, update_statistics: bool = True) -> Tensors:
        buffers = self.local.buffers if update_statistics else {k: b.clone() for k, b in self.local.buffers.items()}
        if not all(p.requires_grad for p in point.values()):
            point = {name: p.detach().requires_grad_() for name, p in point.items()}
        state = ModelState(point, self.local.frozen, buffers)
        features = None
        if "features" in self.needs:
            logits, features = self.network.logits_and_features(state, self.x, train=True)
        else:
            logits = self.network.logits(state, self.x, train=True)
        params = point if "params" in self.needs else None
        loss = self.objective(replace(self.inputs, logits=logits, features=features, params=params))
        if self.first_loss is None:
            self.first_loss = loss.detach()
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
