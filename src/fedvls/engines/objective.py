"""The objective's slope with respect to logits and features: where autograd ends and hand-written layers begin."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .. import kernels
from ..losses.term import LossInputs, Objective, Term, as_objective
from .base import Tensors


@dataclass(frozen=True)
class Slopes:
    """The objective's value per leading index, and its gradients."""

    loss: Tensor
    logits: Tensor
    features: Tensor | None


class SplitObjective:
    """An objective, split into the terms over a model's outputs and those over its parameters."""

    def __init__(self, objective: Objective | Term, device: torch.device) -> None:
        terms = as_objective(objective).terms
        self.of_outputs = [t for t in terms if "params" not in t.needs]
        self.of_params = [t for t in terms if "params" in t.needs and t.weight != 0]
        self.written_out = kernels.objective(self.of_outputs, device)

    @property
    def pull(self) -> float | None:
        """mu, if the terms over the parameters are mu/2 ||w - w_received||^2; None if they are anything else."""
        return sum(t.weight for t in self.of_params) if all(t.is_pull for t in self.of_params) else None

    def slopes(self, inputs: LossInputs, logits: Tensor, features: Tensor | None) -> Slopes:
        """Value and gradients of the terms over the outputs, each client by itself."""
        if not self.of_outputs:
            return Slopes(logits.new_zeros(logits.shape[:-2]), torch.zeros_like(logits), None)
        if self.written_out is not None and self.written_out.takes(logits):
            return Slopes(*self.written_out(inputs, logits), None)
        with torch.enable_grad():
            outputs = [logits.detach().requires_grad_()]
            if features is not None:
                outputs.append(features.detach().requires_grad_())
            given = replace(inputs, logits=outputs[0], features=outputs[1] if len(outputs) > 1 else None)
            loss = Objective(tuple(self.of_outputs))(given)
            found = torch.autograd.grad(loss, outputs, torch.ones_like(loss), allow_unused=True)
        slope = torch.zeros_like(logits) if found[0] is None else found[0]
        return Slopes(loss.detach(), slope, found[1] if len(found) > 1 else None)

    def add_parameter_terms(self, inputs: LossInputs, point: Tensors, into: Tensors) -> Tensor | None:
        """Add the gradients of the terms over the parameters at `point`; their value, or None without any."""
        if not self.of_params:
            return None
        with torch.enable_grad():
            leaves = {name: value.detach().requires_grad_() for name, value in point.items()}
            loss = Objective(tuple(self.of_params))(replace(inputs, params=leaves))
            found = torch.autograd.grad(loss, list(leaves.values()), torch.ones_like(loss))
        torch._foreach_add_(list(into.values()), list(found))
        return loss.detach()
