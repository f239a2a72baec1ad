"""Every operation of a training step, one by one, beside plain PyTorch in float64 that is given the same numbers.

Over a whole network rounding grows until it says little: in bf16 the gradients of MobileNetV2's first layers are as far
from float64's as they are long, whoever computes them. One operation by itself stays within its own rounding.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from fedvls.kernels.folding import Inference
from fedvls.kernels.network import ConvNet
from fedvls.kernels.reference import Reference
from fedvls.kernels.structure import structure
from fedvls.kernels.values import Operations, Raw, Statistics, Tensors
from kernels.networks import Cohort, apart

PLAIN = Reference(torch.float64)


class Checked:
    """`Operations` or `Inference` by others; `errors` has, by operation, shape and result, the largest relative error
    of a client."""

    def __init__(self, operations: Operations | Inference, plain: Operations | Inference = PLAIN) -> None:
        self.operations, self.plain = operations, plain
        self.errors: dict[str, float] = {}
        self.comparing = True
        self.weight_gradients: list[tuple[str, Tensor, Tensor]] = []

    def train(self, cohort: Cohort) -> dict[str, float]:
        """Forward and backward pass of the cohort's networks: the errors of all that was computed on the way."""
        found = structure(cohort.module)
        assert found is not None
        network = ConvNet(found, lambda device: self)  # type: ignore[arg-type, return-value]
        forward = network.forward(cohort.params, cohort.buffers, cohort.x, cohort.real, features=True, statistics=True)
        network.backward(forward, cohort.d_logits, cohort.d_features, cohort.into)
        for what, mine, theirs in self.weight_gradients:  # at the end, because any later launch may add their parts
            self._note(what, mine, theirs)
        return self.errors

    def rehearse(self, run: Callable[[], object]) -> None:
        self.comparing = False
        self.operations.rehearse(run)
        self.comparing = True

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        return partial(self._called, operation)

    def _called(self, operation: str, *given: Any) -> Any:
        if not self.comparing:
            return getattr(self.operations, operation)(*given)
        copies = exact(given)
        mine = getattr(self.operations, operation)(*given)
        theirs = getattr(self.plain, operation)(*copies)
        names = inspect.signature(getattr(self.plain, operation)).bind
        ours, others = (names(*each).arguments for each in (given, copies))
        first = mine[0] if isinstance(mine, tuple) else mine
        what = " ".join(
            [operation, *(str(tuple(t.shape[1:])) for t in (ours.get("w"), first) if isinstance(t, Tensor))]
        )
        parts = comparable(operation, others, theirs)
        for part, value in comparable(operation, ours, mine).items():
            self._note(f"{what}: {part}", value, parts[part])
        if operation.endswith("wise_backward"):
            self.weight_gradients.append((f"{what}: weights", ours["into"], others["into"]))
        return mine

    def _note(self, what: str, mine: Tensor, theirs: Tensor) -> None:
        worst = max(apart(one, other) for one, other in zip(mine, theirs, strict=True))
        self.errors[what] = max(self.errors.get(what, 0.0), worst)


def exact(value: Any) -> Any:
    """The same numbers in float64, in tensors of their own."""
    if isinstance(value, Tensor):
        return value.to(torch.float64, copy=True) if value.is_floating_point() else value.clone()
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(**{f.name: exact(getattr(value, f.name)) for f in fields(value)})
    if isinstance(value, dict):
        return {name: exact(each) for name, each in value.items()}
    if isinstance(value, tuple):
        each = [exact(part) for part in value]
        return type(value)(*each) if hasattr(value, "_fields") else tuple(each)
    return value


def comparable(operation: str, given: dict[str, Any], result: Any) -> Tensors:
    """What an operation made of these arguments, in tensors `[K, ...]` that do not depend on how its work was dealt
    out; what it wrote into arguments as well, but for weights' gradients, which may still be in parts."""
    if operation == "weights":
        return dict(result)
    if operation == "summed":
        return {}
    rows = given.get("rows")
    if rows is None:  # inference has one network and no padding
        return {"result": result[None]}
    if isinstance(result, Tensor) and operation != "normalise":
        return {"result": PLAIN._cleared(result, rows)}
    if operation == "normalise":
        running = {} if given["tracked"] is None else given["tracked"]._asdict()
        normal = dict(zip(("scale", "shift", "mean", "inverse deviation"), result.unbind(1), strict=True))
        return {**normal, **{f"running {name}": value for name, value in running.items()}}
    if operation == "moments":
        return {"coefficients": result.coefficients, "gamma and beta": torch.stack(given["into"], 1)}
    if operation in ("pointwise", "depthwise"):
        return {"result": PLAIN._cleared(result[0], rows), "statistics": _deviations(result[1], rows)}
    if not given.get("wanted", True):
        return {}
    source = given["unit"] if operation == "pooled_backward" else given["source"]
    made_by = (source,) if isinstance(source, Raw) else source.made_by
    found = {"result": PLAIN._cleared(result[0], rows)}
    return {**found, "sums": _sums(result[1], made_by)} if made_by else found


def _deviations(statistics: Statistics, rows: Tensor) -> Tensor:
    """Mean (in deviations) and deviation of every channel."""
    values = exact(statistics)
    one = torch.ones_like(values.values[:, 0, 0])
    _, shift, _, inverse = PLAIN.normalise(values, rows, one, 0 * one, None, 1e-5, 0.1).unbind(1)
    return torch.stack((shift, 1 / inverse), 1)


def _sums(sums: Tensor, made_by: tuple[Raw, ...]) -> Tensor:
    """Sums of g and of g times the normalised output, together: where a shift has no effect the first is 0 but for
    rounding, and the others say what it is to be measured by."""
    first, *others = exact(sums).sum(1).unbind(1)
    return torch.stack([first, *(s * u.normal[:, 3] for s, u in zip(others, made_by, strict=True))], 1)
