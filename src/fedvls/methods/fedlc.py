"""FedLC (Zhang et al., ICML 2022)."""

from typing import Literal

from ..errors import UsageError
from ..losses import margin_cross_entropy
from ..method import Method, register


@register("fedlc", title="FedLC", venue="ICML 2022")
def fedlc(tau: float = 0.5, true_class: Literal["kept", "left-out"] = "kept") -> Method:
    """Cross-entropy with logits calibrated by class counts.

    L = CE(z - tau * n^(-1/4), y); vacant classes leave the softmax.
    tau: 0.5 in the FedVLS paper.
    Deviation: the original equation leaves the true class out of the denominator (`true_class="left-out"`); that loss
    is unbounded below and is reported to collapse, so the true class is kept, as in every program found.
    """
    if tau < 0:
        raise UsageError(f"fedlc: tau = {tau} must be >= 0")
    return Method(objective=margin_cross_entropy(tau, true_class))
