"""FedGF (Lee and Yoon, ICML 2024)."""

from typing import Literal

from ..aggregation import flatness_mean
from ..errors import UsageError
from ..exchange import Exchange
from ..losses import cross_entropy
from ..method import Method, register
from ..steps import flatness
from ._checks import at_least


@register("fedgf", title="FedGF", venue="ICML 2024")
def fedgf(
    rho: float = 0.1, c_o: float = 0.3, c_mode: Literal["auto", "adaptive", "fixed"] = "auto", window: int = 30
) -> Method:
    """Sharpness-aware steps whose perturbation is mixed with a global one.

    The gradient is taken at c * w~ + (1 - c) * (w + rho * g/||g||); the server sends w~, a step back along its last
    update, and c.
    rho 0.1 and c_o 0.3 in the FedVLS paper. adaptive: c is the share of the last `window` rounds in which the clients'
    mean distance exceeded c_o; fixed: c = c_o; auto: adaptive with one local epoch, else fixed.
    Deviations: trainable parameters only in distances and perturbations; BatchNorm statistics move in the first pass
    only. "auto" exists because the distance is absolute: with many local steps c would soon be 1.
    """
    at_least("fedgf", 0, rho=rho, c_o=c_o)
    at_least("fedgf", 1, window=window)
    if c_mode != "adaptive" and c_o > 1:
        raise UsageError(f"fedgf: c_o = {c_o} is the mixing weight unless c_mode is adaptive: at most 1")
    return Method(
        objective=cross_entropy(),
        step=flatness(rho),
        server=flatness_mean(rho, c_o, c_mode, window),
        exchange=Exchange(down="a perturbed copy of the model and the mixing weight c"),
    )
