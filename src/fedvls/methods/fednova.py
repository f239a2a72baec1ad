"""FedNova (Wang et al., NeurIPS 2020)."""

from ..aggregation import normalised_mean
from ..exchange import Exchange
from ..losses import cross_entropy
from ..method import Method, register


@register("fednova", title="FedNova", venue="NeurIPS 2020")
def fednova() -> Method:
    """FedAvg whose updates are divided by their effective number of steps.

    w <- w + (sum_i p_i a_i) * sum_i p_i (w_i - w)/a_i;  a_i = sum_{t=1..K_i} (1 - m^t)/(1 - m), K_i without momentum.
    Equal numbers of steps give FedAvg, to the bit.
    """
    return Method(
        objective=cross_entropy(),
        server=normalised_mean(),
        exchange=Exchange(up="its number of local steps"),
    )
