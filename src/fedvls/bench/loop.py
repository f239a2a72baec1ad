"""The loop that most research code has: a list of tensors, a DataLoader, one client after another, one thread.

`python -m fedvls.bench.loop SETTINGS`. FedVLS's loss is the package's own, so that the arithmetic is the same; the
images of an augmented workload are augmented by the minibatch, which is kinder than one by one as loaders do.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from .. import rng
from ..augment import Augmentation, draws, get_augmentation
from ..clients import sample_cohort
from ..losses.term import ClientStatistics, LossInputs, as_objective
from ..method import get_method
from .inputs import workload_network
from .rivals.shared import Inputs, Reporter, accuracy, read_inputs, torch_device
from .workloads import get_workload

Loss = Callable[[nn.Module, nn.Module, Tensor, Tensor, Tensor], Tensor]


def plain_loss(model: nn.Module, teacher: nn.Module, counts: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(x), y)


def method_loss(name: str) -> Loss:
    """The objective of a method that needs the teacher's logits, on one minibatch."""
    objective = as_objective(get_method(name).objective)

    def loss(model: nn.Module, teacher: nn.Module, counts: Tensor, x: Tensor, y: Tensor) -> Tensor:
        with torch.no_grad():
            reference = teacher(x)
        mask = torch.ones_like(y, dtype=torch.bool)
        inputs = LossInputs(logits=model(x), labels=y, sample_mask=mask, client=ClientStatistics(counts))
        return objective(replace(inputs, teacher_logits=reference))

    return loss


class Loop:
    """Every client's samples as a list, and how one of them trains."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self.device = torch_device(inputs["device"])
        self.augmentation: Augmentation = get_augmentation(inputs["augmentation"])
        self.loss = plain_loss if inputs["method"] == "fedavg" else method_loss(inputs["method"])
        x, y = inputs.train()
        if self.augmentation.width:
            x = torch.from_numpy(inputs.arrays["x_train"])  # augmented as bytes, scaled afterwards
        self.scale = [torch.tensor(inputs[key], device=self.device).reshape(-1, 1, 1) for key in ("mean", "std")]
        self.clients = [[(x[i], y[i]) for i in own.tolist()] for own in inputs.positions]
        labels = inputs.arrays["y_train"]
        self.counts = [np.bincount(labels[own], minlength=inputs["classes"]) for own in inputs.positions]

    def train(self, start: nn.Module, client: int, round: int) -> nn.Module:
        """The client's model after its epochs."""
        inputs, model, teacher = self.inputs, copy.deepcopy(start).train(), copy.deepcopy(start).eval()
        optimizer = inputs.optimizer(model)
        counts = torch.from_numpy(self.counts[client]).to(self.device, torch.float32)
        order = torch.Generator()
        order.manual_seed(int(rng.key(inputs["seed"], "bench-loop", round, client).random_raw() >> 1))
        loader: Any = DataLoader(self.clients[client], inputs["batch_size"], shuffle=True, generator=order)  # type: ignore[arg-type]
        with rng.torch_draws(self.device, inputs["seed"], "bench-loop", round, client):
            for epoch in range(inputs["epochs"]):
                where = {"seed": inputs["seed"], "round": round, "client": client, "epoch": epoch}
                for x, y in loader:
                    x, y = self._prepared(x.to(self.device), where), y.to(self.device)
                    optimizer.zero_grad()
                    self.loss(model, teacher, counts, x, y).backward()  # type: ignore[no-untyped-call]
                    optimizer.step()
        return model

    def _prepared(self, x: Tensor, where: dict[str, int]) -> Tensor:
        if not self.augmentation.width:
            return x
        images = self.augmentation(x, draws(self.augmentation, len(x), **where).to(self.device))
        mean, std = self.scale
        return (images.float() / 255 - mean) / std


@torch.no_grad()
def averaged(start: nn.Module, models: Sequence[nn.Module], sizes: Sequence[int]) -> nn.Module:
    """The mean of the models, weighted by their numbers of samples; counters take the maximum."""
    states = [model.state_dict() for model in models]
    for name, value in start.state_dict().items():
        parts = [state[name] for state in states]
        if value.is_floating_point():
            value.copy_(sum(part * (n / sum(sizes)) for part, n in zip(parts, sizes, strict=True)))
        else:
            value.copy_(torch.stack(parts).amax(0))
    return start


def run(inputs: Inputs, reporter: Reporter) -> None:
    """Train."""
    torch.set_num_threads(1)
    loop = Loop(inputs)
    network = workload_network(get_workload(inputs["name"]), 0)
    model = network.module(network.start(loop.device, torch.float32).updated(inputs.start)).to(loop.device)
    x_test, y_test = inputs.test()
    teacher = "" if inputs["method"] == "fedavg" else ", teacher in every step"
    reporter.ready(f"1 process, 1 thread{teacher}")
    for round in range(1, inputs.rounds + 1):
        cohort = sample_cohort(inputs["clients"], inputs["cohort"] / inputs["clients"], inputs["seed"], round)
        models = [loop.train(model, client, round) for client in cohort]
        model = averaged(model, models, [len(inputs.positions[client]) for client in cohort])
        reporter.round_ended(accuracy(model, x_test, y_test), inputs.samples(cohort))


def main(path: str) -> None:
    inputs = read_inputs(path)
    reporter = Reporter(inputs)
    run(inputs, reporter)
    reporter.done()


if __name__ == "__main__":
    main(sys.argv[1])
