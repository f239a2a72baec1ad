"""FedNTD (Lee et al., NeurIPS 2022)."""

from ..losses import cross_entropy, not_true_distillation
from ..method import Method, register
from ._checks import temperature_and_weight


@register("fedntd", title="FedNTD", venue="NeurIPS 2022")
def fedntd(beta: float = 0.1, temperature: float = 1.0) -> Method:
    """Cross-entropy plus distillation of the received model over the not-true classes.

    L = CE(z, y) + beta * T^2 * mean_i KL(softmax_{c != y}(t/T) || softmax_{c != y}(z/T))
    beta: 0.1 in the FedVLS paper, 1 in the original; its temperature is unstated, so the original's 1.
    Deviation: the teacher runs in eval mode unless the recipe says otherwise (the original leaves that to chance).
    """
    temperature_and_weight("fedntd", temperature, beta=beta)
    return Method(objective=cross_entropy() + beta * not_true_distillation(temperature))
