"""How the server turns clients' models into the next global model."""

from .adaptive import server_adam, server_momentum
from .base import (
    SERVER_RULES,
    BufferPolicy,
    ServerInputs,
    ServerOutputs,
    ServerRule,
    WeightPolicy,
    client_weights,
    combine_buffers,
    weighted_mean,
)
from .controls import controlled_mean, dynamic_mean
from .flatness import flatness_mean
from .means import direction_mean, extrapolated, mean
from .normalised import normalised_mean
from .prototypes import prototype_mean

__all__ = [
    "SERVER_RULES",
    "BufferPolicy",
    "ServerInputs",
    "ServerOutputs",
    "ServerRule",
    "WeightPolicy",
    "client_weights",
    "combine_buffers",
    "controlled_mean",
    "direction_mean",
    "dynamic_mean",
    "extrapolated",
    "flatness_mean",
    "mean",
    "normalised_mean",
    "prototype_mean",
    "server_adam",
    "server_momentum",
    "weighted_mean",
]
