"""What travels between server and sites: all of it, both ways, and nothing besides.

Down: the model, what the method's server rule broadcasts, and a few numbers (`Order`).
Up: the trained model, what the method sends beside it, and the declared metrics. Class counts never leave a site.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from torch import Tensor

from ..engines.base import Update
from ..errors import RunError

Tensors = dict[str, Tensor]

ARRAYS, BROADCAST, SENT, CONFIG, METRICS = "arrays", "broadcast", "sent", "config", "metrics"
SAMPLES = "num-examples"  # the weight that Flower's own strategies look for
TRAIN_METRICS = (SAMPLES, "site", "steps", "seen", "train-loss")
EVALUATE_METRICS = (SAMPLES, "site", "accuracy", "loss")
SITE_METRICS = (SAMPLES, "site")


@dataclass(frozen=True)
class Order:
    """What the server tells a site beside the tensors."""

    round: int
    run: str = ""
    """The run's name for files that a site keeps: the same after a resume, another one for another run."""
    accepted: tuple[int, ...] = ()
    """For every site the last round in which its update counted (0: none)."""

    def write(self, config: ConfigRecord) -> ConfigRecord:
        """Into a record that may hold more already."""
        config["server-round"] = self.round
        config["run"] = self.run
        config["accepted"] = list(self.accepted)
        return config

    @staticmethod
    def read(content: RecordDict) -> Order:
        """From a message; the stock strategies of Flower send the round alone."""
        config: dict[str, Any] = dict(content.config_records.get(CONFIG, {}))
        try:
            return Order(int(config["server-round"]), str(config.get("run", "")), tuple(config.get("accepted", ())))
        except (KeyError, TypeError, ValueError):
            raise RunError(f"the message has no round: its record {CONFIG!r} must hold server-round") from None

    def last_accepted(self, site: int) -> int:
        """The round after which the site's kept tensors are the ones to use."""
        return self.accepted[site] if site < len(self.accepted) else 0


def to_record(tensors: Mapping[str, Tensor]) -> ArrayRecord:
    """Tensors under their names."""
    return ArrayRecord({name: tensor.detach().cpu() for name, tensor in tensors.items()})


def to_tensors(record: ArrayRecord, device: torch.device) -> Tensors:
    """The inverse."""
    return {name: torch.from_numpy(array.numpy().copy()).to(device) for name, array in record.items()}


def down(arrays: ArrayRecord, broadcast: Mapping[str, Tensor], config: ConfigRecord) -> RecordDict:
    """A message's content for the sites: a method without a broadcast sends a single record of arrays."""
    content = RecordDict({ARRAYS: arrays, CONFIG: config})
    if broadcast:
        content[BROADCAST] = to_record(broadcast)
    return content


def up(update: Update) -> RecordDict:
    """A trained site's answer."""
    values = (update.samples, update.client, update.steps, update.seen, update.loss)
    content = RecordDict(
        {
            ARRAYS: to_record(update.state.tensors()),
            METRICS: MetricRecord(dict(zip(TRAIN_METRICS, values, strict=True))),
        }
    )
    if update.sent:
        content[SENT] = to_record(update.sent)
    return content
