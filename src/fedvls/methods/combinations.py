"""FedVLS with other methods' steps and servers: replaced parts, nothing else."""

from ..aggregation import extrapolated
from ..method import Method, register
from ..steps import sam
from .fedvls import fedvls


@register("fedvls+fedsam", title="FedVLS + FedSAM", venue="AAAI 2025")
def fedvls_fedsam(lam: float = 0.1, rho: float = 0.1) -> Method:
    """FedVLS's objective in both passes of FedSAM; the teacher runs once per minibatch."""
    return fedvls(lam).with_(step=sam(rho))


@register("fedvls+fedexp", title="FedVLS + FedExP", venue="AAAI 2025")
def fedvls_fedexp(lam: float = 0.1, eps: float = 0.01) -> Method:
    """FedVLS on the clients, FedExP on the server."""
    return fedvls(lam).with_(server=extrapolated(eps))
