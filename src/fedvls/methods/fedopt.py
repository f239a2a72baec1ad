"""FedAvgM (Hsu et al. 2019) and FedAdam (Reddi et al., ICLR 2021): optimizers on the server."""

from ..aggregation import server_adam, server_momentum
from ..losses import cross_entropy
from ..method import Method, register
from ._checks import above, below_one


@register("fedavgm", title="FedAvgM", venue="arXiv 2019")
def fedavgm(beta: float = 0.9, server_lr: float = 1.0) -> Method:
    """FedAvg with momentum on the server.

    v <- beta v + mean delta;  w <- w + server_lr * v. beta = 0 with server_lr = 1 is FedAvg to the bit.
    """
    above("fedavgm", 0, server_lr=server_lr)
    below_one("fedavgm", beta=beta)
    return Method(objective=cross_entropy(), server=server_momentum(beta, server_lr))


@register("fedadam", title="FedAdam", venue="ICLR 2021")
def fedadam(server_lr: float = 0.01, beta1: float = 0.9, beta2: float = 0.99, tau: float = 1e-3) -> Method:
    """FedAvg with Adam on the server.

    m <- beta1 m + (1 - beta1) d;  v <- beta2 v + (1 - beta2) d^2;  w <- w + server_lr * m/(sqrt(v) + tau),
    d the mean delta. As published: no bias correction, v starts at tau^2.
    """
    above("fedadam", 0, server_lr=server_lr, tau=tau)
    below_one("fedadam", beta1=beta1, beta2=beta2)
    return Method(objective=cross_entropy(), server=server_adam(server_lr, beta1, beta2, tau))
