"""What a cross-entropy adds to a client's logits, or multiplies them by: tables of its label statistics.

Values, not closures: equal ones are computed once per client and round, and a kernel can ask for them too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from .masking import exclude
from .term import FLOOR, ClientStatistics


@dataclass(frozen=True)
class LogPrior:
    """log(p + floor); with floor = 0 a vacant class leaves the softmax."""

    floor: float

    def __call__(self, client: ClientStatistics) -> Tensor:
        if self.floor > 0:
            return (client.prior + self.floor).log()
        return exclude(client.prior.masked_fill(client.vacant, 1.0).log(), ~client.vacant)


@dataclass(frozen=True)
class SoftenedLogPrior:
    """strength * log w, w the smoothed prior p' = (1 - smoothing) p + smoothing / C, or for "average" p' over its mean
    for classes the client has and 1 for vacant ones."""

    strength: float
    smoothing: float
    vacant: Literal["rare", "average"]

    def __call__(self, client: ClientStatistics) -> Tensor:
        weights = (1 - self.smoothing) * client.prior + self.smoothing / client.counts.shape[-1] + FLOOR
        if self.vacant == "average":
            present = (~client.vacant).to(weights.dtype)
            mean = (weights * present).sum(-1, keepdim=True) / present.sum(-1, keepdim=True)
            weights = (weights / mean).masked_fill(client.vacant, 1.0)
        return self.strength * weights.log()


@dataclass(frozen=True)
class Margin:
    """-tau * n^(-1/4); a vacant class leaves the softmax."""

    tau: float

    def __call__(self, client: ClientStatistics) -> Tensor:
        counts = torch.where(client.vacant, 1, client.counts)
        return exclude(-(self.tau * counts.pow(-0.25)), ~client.vacant)


@dataclass(frozen=True)
class Restriction:
    """1 for present and alpha for vacant classes; "soft": alpha + (1 - alpha) * n_c / max n."""

    alpha: float
    scale: Literal["hard", "soft"]

    def __call__(self, client: ClientStatistics) -> Tensor:
        counts = client.counts
        share = (counts > 0).to(counts.dtype) if self.scale == "hard" else counts / counts.amax(-1, keepdim=True)
        return self.alpha + (1 - self.alpha) * share
