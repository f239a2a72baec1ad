"""SCAFFOLD (Karimireddy et al., ICML 2020)."""

from ..aggregation import controlled_mean
from ..exchange import control_variates
from ..losses import cross_entropy
from ..method import Method, register
from ..steps import controlled


@register("scaffold", title="SCAFFOLD", venue="ICML 2020")
def scaffold() -> Method:
    """Local gradients corrected by control variates: g - c_i + c.

    c_i <- c_i - c + (w - w_i)/(K lr)  (option II);  c <- c + 1/N * sum_i (change of c_i).
    Deviations: models are averaged with the same sample weights as every other method (the paper: equally). With
    momentum m, K is replaced by the effective number of steps sum_t (1 - m^t)/(1 - m): (w - w_i)/(K lr) is meant to be
    the mean local gradient, and would be up to 1/(1 - m) times too long. Without momentum this is the paper's rule.
    """
    return Method(objective=cross_entropy(), step=controlled(), server=controlled_mean(), exchange=control_variates())
