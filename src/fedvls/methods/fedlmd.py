"""FedLMD (Lu et al., ACM MM 2023)."""

from ..losses import cross_entropy, label_masked_distillation
from ..method import Method, register
from ._checks import temperature_and_weight


@register("fedlmd", title="FedLMD", venue="ACM MM 2023")
def fedlmd(beta: float = 0.1, temperature: float = 1.0) -> Method:
    """Cross-entropy plus distillation of minority and vacant classes, the label masked.

    L = CE(z, y) + beta * T^2 * mean_i KL(softmax_{c not majority, c != y}(t/T) || softmax_{c != y}(z/T))
    majority: classes with more samples than the mean over all classes.
    beta: 0.1 in the FedVLS paper, 1 in the original.
    Deviation: a sample for which the teacher has no class left contributes 0; the original's -1000 mask explodes there.
    """
    temperature_and_weight("fedlmd", temperature, beta=beta)
    return Method(objective=cross_entropy() + beta * label_masked_distillation(temperature))
