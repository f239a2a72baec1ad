"""FedExP (Jhunjhunwala et al., ICLR 2023)."""

from ..aggregation import extrapolated
from ..losses import cross_entropy
from ..method import Method, register


@register("fedexp", title="FedExP", venue="ICLR 2023")
def fedexp(eps: float = 0.01, scale_eps: bool = False, evaluate_average_of_last_two: bool = False) -> Method:
    """FedAvg whose server extrapolates when the clients disagree.

    w + eta * mean delta, eta = max(1, sum_i p_i ||d_i||^2 / (2 (||mean d||^2 + eps))). eps: 0.01 in the FedVLS paper.
    Deviations: trainable parameters only (with BatchNorm's counters in the norms, as released, eta stays 1 for ever);
    no decay of eps or the learning rate, no clipping; the original's two other habits are options.
    """
    return Method(objective=cross_entropy(), server=extrapolated(eps, scale_eps, evaluate_average_of_last_two))
