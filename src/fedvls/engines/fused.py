"""Chains of Linear and ReLU layers, trained without autograd over the layers.

The objective is differentiated by autograd with respect to the logits alone, a small matrix; the layers' backward pass
is four lines of matrix products. Parameters, gradients and momentum are one vector each, so that an optimizer step is
one pass over memory. A client's inputs are normalised and its teacher evaluated once per round, not once per batch.
Same minibatches, same losses as the sequential engine; only rounding differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.optim.sgd import sgd

from ..augment import Augmentation
from ..data.resident import ResidentData
from ..flat import flattened, unflattened
from ..losses.term import ClientStatistics, LossInputs
from ..method import Method
from ..models.chain import Layer, linear_chain
from ..models.network import Network
from ..numerics import half_precision
from ..steps import StepContext
from .base import ClientTask, RoundJob, Tensors, Update, finished, mean_loss
from .batches import epoch_batches
from .objective import SplitObjective

CHUNK = 4096  # samples in a product of large matrices
PIECE = 64  # samples that pass through several operations, and stay in the cache between them


class FusedTrainer:
    """Trains one client of a chain of Linear layers."""

    def __init__(self, network: Network, data: ResidentData, augmentation: Augmentation) -> None:
        self.network, self.data, self.augmentation = network, data, augmentation
        self.chain = linear_chain(network.prototype) or []

    def supports(self, method: Method) -> bool:
        """Whether this trainer can do what method, model and data ask for."""
        collects = method.exchange is not None and method.exchange.collects_features
        needs = method.needs - {"teacher_logits", "params", "teacher_params", "received"}
        return bool(self.chain) and not (needs or collects or self.augmentation.width or half_precision())

    def train_client(self, job: RoundJob, task: ClientTask) -> Update:
        """As the sequential engine's, in fewer and larger operations."""
        start, method, recipe, broadcast = job.start, job.method, job.recipe, job.broadcast
        x = self._inputs(task.indices)
        y = self.data.y_train.index_select(0, task.indices)
        teacher = self._teacher_logits(job, task, x) if "teacher_logits" in method.needs else None
        flat, params = flattened(start.params)
        slope, into = flattened(start.params)
        before = {k: task.kept[f"momentum/{k}"] for k in params if f"momentum/{k}" in task.kept}
        velocity = [flattened(before)[0] if recipe.persistent_momentum and before else None]
        gradient = _Gradient(self.chain, SplitObjective(method.objective, x.device), into)
        context = StepContext(broadcast, task.kept)
        common = _WholeBatch(
            logits=x,  # replaced at every point
            labels=y,
            sample_mask=torch.ones(0),
            client=ClientStatistics(task.counts),
            teacher_params=start.params,
            received=broadcast,
        )
        losses: list[Tensor] = []
        seen = 0
        for rows in self._batches(job, task):
            labels = y.index_select(0, rows)
            reference = None if teacher is None else teacher.index_select(0, rows)
            mask = torch.ones_like(labels, dtype=torch.bool)
            inputs = replace(common, labels=labels, sample_mask=mask, teacher_logits=reference)
            gradient.begin(x.index_select(0, rows), inputs)
            direction = method.step.direction(gradient, params, context)
            for name, value in direction.items():
                if value is not into[name]:
                    into[name].copy_(value)
            # The optimizer object would do the same, and import PyTorch's compiler into every worker: a second each.
            sgd(
                [flat],
                [slope],
                velocity,
                lr=recipe.lr,
                momentum=recipe.momentum,
                weight_decay=recipe.weight_decay,
                dampening=0,
                nesterov=False,
                maximize=False,
                fused=True,
            )
            losses.append(gradient.loss)
            seen += len(rows)
        kept: Tensors = {}
        if recipe.persistent_momentum and velocity[0] is not None:
            views = unflattened(velocity[0], start.params)
            kept = {f"momentum/{k}": v.clone() for k, v in views.items()}
        trained = start.updated({k: v.clone() for k, v in params.items()})
        return finished(job, task, trained, mean_loss(losses), len(losses), seen, kept)

    def _inputs(self, indices: Tensor) -> Tensor:
        """Normalised and flat."""
        parts = [self.data.normalised(self.data.stored(some)).flatten(1) for some in torch.split(indices, PIECE)]
        return torch.cat(parts)

    def _teacher_logits(self, job: RoundJob, task: ClientTask, x: Tensor) -> Tensor:
        """0, and no work, where the client's loss does not depend on them."""
        if not task.hears_teacher:
            return task.counts.new_zeros(len(x), len(task.counts))
        parts = [forward(self.chain, job.start.params, x[s : s + CHUNK])[-1] for s in range(0, len(x), CHUNK)]
        return torch.cat(parts)

    def _batches(self, job: RoundJob, task: ClientTask) -> Sequence[Tensor]:
        batches: list[Tensor] = []
        recipe = job.recipe
        for epoch in range(recipe.epochs):
            where = {"seed": job.seed, "round": job.round, "client": task.client, "epoch": epoch}
            orders = epoch_batches(task.samples, recipe.batch_size, batch_norm=False, **where)
            batches += [torch.from_numpy(order) for order in orders]
            if recipe.max_steps is not None and len(batches) >= recipe.max_steps:
                return batches[: recipe.max_steps]
        return batches


class _WholeBatch(LossInputs):
    """A minibatch without padding: its mean is one operation instead of six."""

    def over_batch(self, values: Tensor) -> Tensor:
        return values.mean(-1)


class _Gradient:
    """The objective's gradient on one minibatch at any point, written into preallocated tensors."""

    def __init__(self, chain: Sequence[Layer], objective: SplitObjective, into: Tensors) -> None:
        self.chain, self.objective, self.into = chain, objective, into

    def begin(self, x: Tensor, inputs: LossInputs) -> None:
        """Turn to another minibatch."""
        self.x, self.inputs, self.first = x, inputs, True

    def __call__(self, point: Tensors, update_statistics: bool = True) -> Tensors:
        outputs = forward(self.chain, point, self.x)
        slopes = self.objective.slopes(self.inputs, outputs[-1], None)
        backward(self.chain, point, outputs, slopes.logits, self.into)
        more = self.objective.add_parameter_terms(self.inputs, point, self.into)
        if self.first:
            self.loss, self.first = slopes.loss if more is None else slopes.loss + more, False
        return self.into


@torch.no_grad()
def forward(chain: Sequence[Layer], params: Mapping[str, Tensor], x: Tensor) -> list[Tensor]:
    """The input and every layer's output, after its ReLU where it has one."""
    outputs = [x]
    for layer in chain:
        out = torch.nn.functional.linear(outputs[-1], params[layer.weight], params[layer.bias] if layer.bias else None)
        outputs.append(out.relu_() if layer.relu else out)
    return outputs


@torch.no_grad()
def backward(
    chain: Sequence[Layer], params: Mapping[str, Tensor], outputs: Sequence[Tensor], slope: Tensor, into: Tensors
) -> None:
    """Gradients of all parameters from the slope with respect to the last output; the input needs none."""
    for number in reversed(range(len(chain))):
        layer = chain[number]
        torch.mm(slope.t(), outputs[number], out=into[layer.weight])
        if layer.bias is not None:
            torch.sum(slope, 0, out=into[layer.bias])
        if number > 0:
            slope = slope @ params[layer.weight]
            if chain[number - 1].relu:
                slope = torch.ops.aten.threshold_backward(slope, outputs[number], 0)
