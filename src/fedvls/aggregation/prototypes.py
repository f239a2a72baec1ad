"""FPL's server: clients' class prototypes clustered by FINCH (Huang et al., CVPR 2023)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from .base import SERVER_RULES, ServerInputs, ServerOutputs, ServerRule
from .finch import finch


@SERVER_RULES.register("prototype-mean")
def prototype_mean() -> ServerRule:
    """Weighted mean; sends per class the means of the clusters that FINCH finds among the clients' prototypes."""

    def combine(inputs: ServerInputs) -> ServerOutputs:
        prototypes, mask = cluster_prototypes([(s["prototypes"], s["present"]) for s in inputs.sent])
        sent: dict[str, Tensor] = {"prototypes": prototypes, "prototype_mask": mask}
        return ServerOutputs(inputs.mean(), broadcast=sent, metrics={"prototypes": float(mask.sum())})

    return ServerRule(combine, needs_exchange="class prototypes")


def cluster_prototypes(sent: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """(prototypes[C, K, d], mask[C, K]) from each client's (prototypes[C, d], present[C]).

    K is the largest number of clusters that any class has.
    """
    first = sent[0][0]
    everyone = torch.stack([prototypes for prototypes, _ in sent]).double().cpu().numpy()
    present = torch.stack([present for _, present in sent]).cpu().numpy()
    per_class: list[np.ndarray] = []
    for label in range(first.shape[0]):
        points = everyone[present[:, label], label]
        groups = finch(points)
        means = [points[groups == g].mean(0) for g in range(groups.max(initial=-1) + 1)]
        per_class.append(np.stack(means) if means else points)
    most = max(1, *(len(p) for p in per_class))
    prototypes = np.zeros((first.shape[0], most, first.shape[1]))
    mask = np.zeros((first.shape[0], most), np.bool_)
    for label, centres in enumerate(per_class):
        prototypes[label, : len(centres)] = centres
        mask[label, : len(centres)] = True
    return torch.from_numpy(prototypes).to(first), torch.from_numpy(mask).to(first.device)
