"""FedDKD (Zhao et al., CVPR 2022, put into FedAvg)."""

from ..losses import cross_entropy, not_true_distillation, target_distillation
from ..method import Method, register
from ._checks import temperature_and_weight


@register("feddkd", title="FedDKD", venue="")
def feddkd(weight: float = 0.1, alpha: float = 1.0, beta: float = 1.0, temperature: float = 1.0) -> Method:
    """Cross-entropy plus decoupled distillation: target class and not-true classes apart.

    L = CE(z, y) + weight * (alpha * TCKD + beta * NCKD); NCKD is FedNTD's term.
    alpha = beta = 1 fits the FedVLS paper's numbers; the original image-classification setting is alpha 1, beta 8.
    """
    temperature_and_weight("feddkd", temperature, weight=weight, alpha=alpha, beta=beta)
    target, others = target_distillation(temperature), not_true_distillation(temperature)
    return Method(objective=cross_entropy() + weight * alpha * target + weight * beta * others)
