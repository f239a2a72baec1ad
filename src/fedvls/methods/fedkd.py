"""FedKD (Hinton et al. 2015, put into FedAvg)."""

from ..losses import cross_entropy, full_distillation
from ..method import Method, register
from ._checks import temperature_and_weight


@register("fedkd", title="FedKD", venue="")
def fedkd(weight: float = 0.1, temperature: float = 1.0) -> Method:
    """Cross-entropy plus distillation of the received model over all classes.

    L = CE(z, y) + weight * T^2 * mean_i KL(softmax(t/T) || softmax(z/T))
    The FedVLS paper names no values; weight 0.1 and T 1 put it beside the FedNTD row.
    """
    temperature_and_weight("fedkd", temperature, weight=weight)
    return Method(objective=cross_entropy() + weight * full_distillation(temperature))
