"""FPL (Huang et al., CVPR 2023) and FPL + FedVLS."""

from ..aggregation import prototype_mean
from ..errors import UsageError
from ..exchange import class_prototypes
from ..losses import Objective, cross_entropy, prototype_consistency, prototype_contrast
from ..losses.term import as_objective
from ..method import Method, register
from .fedvls import fedvls


def _prototype_terms(tau: float) -> Objective:
    if tau <= 0:
        raise UsageError(f"fpl: tau = {tau} must be > 0")
    return prototype_contrast(tau) + prototype_consistency()


@register("fpl", title="FPL", venue="CVPR 2023")
def fpl(tau: float = 0.02) -> Method:
    """Cross-entropy plus contrast and consistency with clustered class prototypes.

    L = CE + mean_i [ CPCL_i + UPCR_i ], over samples whose class has a prototype (the mean is over all B).
    Clients send the mean feature of each class over their last epoch; the server clusters them per class with FINCH.
    First round: cross-entropy alone. Prototypes tell the server which classes a client has.
    Deviation: UPCR averages over dimensions, as the method's code does; its paper's equation sums.
    """
    return Method(
        objective=cross_entropy() + _prototype_terms(tau), server=prototype_mean(), exchange=class_prototypes()
    )


@register("fpl+fedvls", title="FPL + FedVLS", venue="AAAI 2025")
def fpl_fedvls(lam: float = 0.1, tau: float = 0.02) -> Method:
    """FPL with FedVLS's objective in place of the cross-entropy."""
    return fpl(tau=tau).with_(objective=as_objective(fedvls(lam=lam).objective) + _prototype_terms(tau))
