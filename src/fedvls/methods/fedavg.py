"""FedAvg (McMahan et al., AISTATS 2017)."""

from ..losses import cross_entropy
from ..method import Method, register


@register("fedavg", title="FedAvg", venue="AISTATS 2017")
def fedavg() -> Method:
    """Local cross-entropy training, weighted mean of the models.

    L = CE(z, y)
    Deviation: weights n_i are normalised over the clients that took part; the FedVLS paper's Algorithm 1 divides by the
    data of all clients, which shrinks the update under partial participation (`aggregation_weights: all` has it).
    """
    return Method(objective=cross_entropy())
