"""FedDyn (Acar et al., ICLR 2021)."""

from ..aggregation import dynamic_mean
from ..exchange import dynamic_gradient
from ..losses import cross_entropy, proximal
from ..method import Method, register
from ..steps import dynamic
from ._checks import above


@register("feddyn", title="FedDyn", venue="ICLR 2021")
def feddyn(alpha: float = 0.01) -> Method:
    """A local objective whose linear term makes clients agree at convergence.

    L = CE - <h_i, w> + alpha/2 ||w - w_received||^2;  h_i <- h_i - alpha (w_i - w).
    Server: h <- h - alpha/N sum_i (w_i - w);  w <- equally weighted mean of the models - h/alpha, as published.
    alpha: 0.01 and 0.1 in the original.
    """
    above("feddyn", 0, alpha=alpha)
    return Method(
        objective=cross_entropy() + alpha * proximal(),
        step=dynamic(),
        server=dynamic_mean(alpha),
        exchange=dynamic_gradient(alpha),
    )
