"""FedEKD (FedVLS paper, KD comparison)."""

from ..losses import cross_entropy, existing_distillation
from ..method import Method, register
from ._checks import temperature_and_weight


@register("fedekd", title="FedEKD", venue="")
def fedekd(weight: float = 0.1, temperature: float = 1.0) -> Method:
    """Cross-entropy plus distillation over the classes the client has: the mirror image of FedVLS.

    L = CE(z, y) + weight * T^2 * mean_i KL(softmax_X(t/T) || softmax_X(z/T)), X the existing classes.
    A client with one class gets 0 from it. Values as for FedKD.
    """
    temperature_and_weight("fedekd", temperature, weight=weight)
    return Method(objective=cross_entropy() + weight * existing_distillation(temperature))
