"""FedProx (Li et al., MLSys 2020)."""

from ..errors import UsageError
from ..losses import cross_entropy, proximal
from ..method import Method, register


@register("fedprox", title="FedProx", venue="MLSys 2020")
def fedprox(mu: float = 0.01) -> Method:
    """Cross-entropy plus a pull toward the model the server sent.

    L = CE(z, y) + mu/2 * ||w - w_received||^2, over trainable parameters.
    mu: 0.01 in the FedVLS paper; the original searches 0.001 to 1. mu = 0 is FedAvg to the bit.
    """
    if mu < 0:
        raise UsageError(f"fedprox: mu = {mu} must be >= 0")
    return Method(objective=cross_entropy() + mu * proximal())
