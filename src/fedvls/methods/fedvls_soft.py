"""FedVLS with a softer calibration and a teacher that has to earn its say."""

from typing import Literal

from ..losses import logit_suppression, softened_cross_entropy, vacant_distillation
from ..method import Method, register
from ._checks import at_least, in_unit_interval
from .fedvls import RELEASED_WEIGHT


@register("fedvls-soft", title="FedVLS, softened", venue="this package")
def fedvls_soft(
    lam: float = 0.1,
    strength: float = 0.25,
    smoothing: float = 0.1,
    vacant: Literal["rare", "average"] = "rare",
    trust: Literal["none", "distillation", "calibration", "both"] = "distillation",
    suppression: Literal["none", "released", "bounded"] = "released",
    logit_weight: float = RELEASED_WEIGHT,
) -> Method:
    """FedVLS between FedAvg's objective and its own.

    L = CE(z + strength * log w, y) + lam * L_dis + logit_weight * L_logit,     p' = (1 - smoothing) p + smoothing / C
    vacant = rare: w = p'; vacant = average: w = p' over its mean for classes the client has, 1 for vacant ones.
    strength = 1, smoothing -> 0, trust = none is FedVLS; strength = 0, lam = 0, suppression = none is FedAvg.
    trust: samples count in L_dis (and their calibration is weighted) with the probability that the received model gives
    their label, so that a teacher that knows nothing yet, or nothing of this client's data, has no say.
    suppression = bounded is the printed term with log(1 + x) for log(x). Nothing beyond weights is exchanged.
    """
    at_least("fedvls-soft", 0, lam=lam, logit_weight=logit_weight)
    in_unit_interval("fedvls-soft", strength=strength, smoothing=smoothing)
    objective = softened_cross_entropy(strength, smoothing, vacant, trusted=trust in ("calibration", "both"))
    total = objective + lam * vacant_distillation(trusted=trust in ("distillation", "both"))
    return Method(objective=total if suppression == "none" else total + logit_weight * logit_suppression(suppression))
