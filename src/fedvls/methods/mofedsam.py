"""MoFedSAM (Qu et al., ICML 2022)."""

from ..aggregation import direction_mean
from ..exchange import Exchange
from ..losses import cross_entropy
from ..method import Method, register
from ..steps import momentum_sam


@register("mofedsam", title="MoFedSAM", venue="ICML 2022")
def mofedsam(rho: float = 0.1, beta: float = 0.9) -> Method:
    """FedSAM whose local direction is mixed with the last round's global direction.

    beta * g~ + (1 - beta) * Delta, Delta = -sum_i w_i (w_i - w) / (K_i lr) of the previous round, sent by the server.
    Deviation: each client's own number of steps K_i divides its update, because clients are uneven here.
    """
    return Method(
        objective=cross_entropy(),
        step=momentum_sam(rho, beta),
        server=direction_mean(),
        exchange=Exchange(down="last round's mean direction"),
    )
