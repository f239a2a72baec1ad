"""FedRS (Li and Zhan, KDD 2021)."""

from typing import Literal

from ..losses import restricted_cross_entropy
from ..method import Method, register
from ._checks import in_unit_interval


@register("fedrs", title="FedRS", venue="KDD 2021")
def fedrs(alpha: float = 0.7, scale: Literal["hard", "soft"] = "hard") -> Method:
    """Cross-entropy with the logits of vacant classes scaled down.

    L = CE(s * z, y), s_c = 1 for present and alpha for vacant classes. Evaluation uses unscaled logits.
    alpha: 0.7 in the FedVLS paper; 0.5 is typical of the original. alpha = 1 is FedAvg.
    Deviation: the scale multiplies whole logits, bias included; the original's code scales softly by n_c / max n
    (`scale="soft"`) and has no bias.
    """
    in_unit_interval("fedrs", alpha=alpha)
    return Method(objective=restricted_cross_entropy(alpha, scale))
