"""A site: its data, the model, and the reference engine that trains it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from ..augment import choose_augmentation
from ..data import FederatedData
from ..data.resident import ResidentData
from ..engines.base import ClientTask, RoundJob, Update
from ..engines.sequential import SequentialEngine
from ..errors import RunError
from ..evaluation import Evaluation, evaluate
from ..models.network import ModelState
from ..numerics import DTYPES, repeatable, resolve_device
from .messages import Order, Tensors
from .settings import Plan
from .site_state import SiteState

log = logging.getLogger("fedvls")


class Site:
    """One client of the federation, at home."""

    def __init__(self, plan: Plan, number: int, data: FederatedData) -> None:
        config = plan.config
        self.plan, self.number, self.data = plan, number, data
        self.device = resolve_device(config.device, config.dtype)
        self.network = plan.network(data.sample_shape, data.classes, data.vocabulary)
        self.resident = ResidentData(data, self.device, DTYPES[config.dtype])
        self.augmentation = choose_augmentation(config.augmentation, data)

    @property
    def samples(self) -> int:
        return len(self.data.y_train)

    def train(self, order: Order, arrays: Tensors, broadcast: Tensors, state: SiteState) -> Update:
        """One client's share of a round: the same job for the same engine as in the simulator."""
        config, accepted = self.plan.config, order.last_accepted(self.number)
        start = self._model(arrays)
        kept = state.after(accepted, self.device)
        exchange = self.plan.method.exchange
        if accepted and not kept and exchange is not None and exchange.kept != "nothing":
            log.warning(
                "site %d: what it kept in round %d is not in %s; it goes on without",
                self.number,
                accepted,
                state.folder,
            )
        counts = np.bincount(self.data.y_train, minlength=self.data.classes)
        task = ClientTask(
            self.number,
            torch.arange(self.samples, device=self.device),
            torch.from_numpy(counts).to(self.device, self.resident.dtype),
            kept,
        )
        job = RoundJob(start, self.plan.method, config.recipe(), config.seed, order.round, broadcast)
        with repeatable(self.device, config.threads, config.dtype):
            engine = SequentialEngine(self.network, self.resident, self.augmentation)
            (update,) = engine.train(job, [task])
        if update.is_finite():
            state.keep(order.round, update.kept, accepted)
        return update

    def evaluate(self, arrays: Tensors) -> Evaluation:
        """The global model on the site's own test samples."""
        config = self.plan.config
        with repeatable(self.device, config.threads, config.dtype):
            return evaluate(self.network, self._model(arrays), self.resident, self.data.classes)

    def _model(self, arrays: Mapping[str, Any]) -> ModelState:
        own = self.network.start(self.device, self.resident.dtype)
        for name, tensor in own.tensors().items():
            if name not in arrays:
                raise RunError(f"site {self.number}: the server's model lacks {name!r}; is it the same model?")
            if arrays[name].shape != tensor.shape or arrays[name].dtype != tensor.dtype:
                raise RunError(
                    f"site {self.number}: {name!r} is {arrays[name].dtype} {tuple(arrays[name].shape)} at the server, "
                    f"{tensor.dtype} {tuple(tensor.shape)} here; is it the same model and dtype?"
                )
        return own.updated(arrays)
