"""FedVLS (Guo et al., AAAI 2025)."""

import warnings

from ..losses import (
    Suppression,
    calibrated_cross_entropy,
    cross_entropy,
    logit_suppression,
    vacant_distillation,
)
from ..method import Method, register
from ._checks import at_least

RELEASED_WEIGHT, PRINTED_WEIGHT = 0.005, 1.0


@register("fedvls", title="FedVLS", venue="AAAI 2025")
def fedvls(
    lam: float = 0.1,
    suppression: Suppression = "released",
    logit_weight: float | None = None,
    calibration: bool = True,
    distillation: bool = True,
) -> Method:
    """Vacant-class distillation and logit suppression.

    L = L_cal + lam * L_dis + logit_weight * L_logit            (eq. 6; logit_weight is 1 as printed, 0.005 as released)
    lam: 0.1 for MNIST and CIFAR-10, 0.5 for CIFAR-100 and TinyImageNet. Nothing beyond weights is exchanged.
    calibration, distillation and suppression="none" leave a term out (the ablation table); without calibration the
    first term is plain cross-entropy.
    Deviations from the printed equations:
    - L_dis has the sign of a divergence (eq. 3 prints its negative, which disagreement would minimise).
    - suppression="released": a floor inside the logarithm, a prior shift and weight 0.005, as in the authors' program.
      As printed, the objective is unbounded below and does not train; suppression="printed" exists for study and warns.
    - L_cal adds 1e-9 to the prior, as released; suppression="printed" uses the prior itself.
    - Weight decay is the recipe's, as the paper says; the authors' program sets it to 0 for this method alone.
    """
    at_least("fedvls", 0, lam=lam, logit_weight=logit_weight or 0.0)
    if suppression == "printed":
        warnings.warn(
            "fedvls: the printed suppression term is unbounded below; logits drift to minus infinity and the model "
            'does not learn. Use suppression="released" for training.',
            stacklevel=4,
        )
    first = calibrated_cross_entropy(0.0 if suppression == "printed" else 1e-9) if calibration else cross_entropy()
    objective = first + (lam if distillation else 0.0) * vacant_distillation()
    if suppression != "none":
        default = PRINTED_WEIGHT if suppression == "printed" else RELEASED_WEIGHT
        objective = objective + (default if logit_weight is None else logit_weight) * logit_suppression(suppression)
    return Method(objective=objective)
