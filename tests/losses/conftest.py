"""Every objective there is, and random batches to try it on."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from fedvls import Method, get_method, methods  # noqa: F401  (importing the folder registers its methods)
from fedvls.losses import ClientStatistics, LossInputs
from fedvls.method import METHODS

OTHER_FORMS: list[tuple[str, dict[str, Any]]] = [
    ("fedvls", {"suppression": "printed"}),
    ("fedvls", {"suppression": "none", "calibration": False}),
    ("fedvls-soft", {"trust": "both", "suppression": "bounded"}),
    ("fedvls-soft", {"vacant": "average"}),
    ("fedlc", {"true_class": "left-out"}),
    ("fedrs", {"scale": "soft"}),
    ("feddkd", {"beta": 8.0, "temperature": 4.0}),
    ("fedntd", {"temperature": 3.0}),
]
"""Registered methods with values that change the form of the loss."""

WEIGHTS = {"w": (4, 3), "b": (3,)}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `every_method` runs for each registered method and each other form.

    Methods that share an objective (FedAvg, FedSAM, FedExP, ...) are tried once: they differ in what is no loss.
    """
    if "every_method" in metafunc.fixturenames:
        objectives = {get_method(entry.name).describe["objective"]: (entry.name, {}) for entry in reversed([*METHODS])}
        forms = [*objectives.values(), *OTHER_FORMS]
        ids = ["-".join([name, *map(str, values.values())]) for name, values in forms]
        metafunc.parametrize("every_method", [built(name, values) for name, values in forms], ids=ids)


def built(name: str, values: dict[str, Any]) -> Method:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the printed suppression says that it does not train
        return get_method(name, **values)


@pytest.fixture(scope="session")
def method_of():
    """`method_of("fedvls", lam=0)`, without the warning of the printed form."""
    return lambda name, **values: built(name, values)


@pytest.fixture(scope="session")
def draw_batch():
    """`draw_batch(counts, size, seed, labels)`: all keywords of `Method.loss` but the mask, for one client."""

    def draw(counts, size, seed=0, labels=None, dtype=torch.float64, scale=3.0) -> dict[str, Any]:
        random = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(shape, generator=random, dtype=dtype)

        counts = torch.as_tensor(counts, dtype=dtype)
        if labels is None:
            labels = torch.multinomial(counts.float(), size, replacement=True, generator=random)
        return {
            "logits": (scale * normal(size, len(counts))).requires_grad_(),
            "labels": torch.as_tensor(labels),
            "counts": counts,
            "teacher_logits": scale * normal(size, len(counts)),
            "features": (scale * normal(size, 4)).requires_grad_(),
            "teacher_features": scale * normal(size, 4),
            "previous_features": scale * normal(size, 4),
            "params": {name: normal(*shape).requires_grad_() for name, shape in WEIGHTS.items()},
            "teacher_params": {name: normal(*shape) for name, shape in WEIGHTS.items()},
            "received": prototypes(len(counts), dtype),
        }

    return draw


def prototypes(classes: int, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """What FPL's server sends: two places per class, of which the first class has none and the others one or two."""
    values = torch.randn((classes, 2, 4), generator=torch.Generator().manual_seed(0), dtype=dtype)
    mask = torch.stack([torch.arange(classes) > 0, torch.arange(classes) % 2 == 0], -1)
    return {"prototypes": values, "prototype_mask": mask & mask[:, :1]}


@pytest.fixture(scope="session")
def parts():
    """`parts(method, batch)`: each term's own value, before its weight."""

    def compute(method: Method, batch: dict[str, Any]) -> dict[str, torch.Tensor]:
        given = {k: v for k, v in batch.items() if k not in ("counts", "sample_mask")}
        mask = batch.get("sample_mask", torch.ones_like(batch["labels"], dtype=torch.bool))
        return method.objective.parts(LossInputs(sample_mask=mask, client=ClientStatistics(batch["counts"]), **given))

    return compute


@pytest.fixture(scope="session")
def gradients():
    """`gradients(loss, batch)`: of logits, features and parameters, zeros where the loss does not depend on them."""

    def compute(loss: torch.Tensor, batch: dict[str, Any]) -> dict[str, torch.Tensor]:
        of = {"logits": batch["logits"], "features": batch["features"], **batch["params"]}
        found = torch.autograd.grad(loss.sum(), list(of.values()), allow_unused=True)
        return {name: torch.zeros_like(t) if g is None else g for (name, t), g in zip(of.items(), found, strict=True)}

    return compute
