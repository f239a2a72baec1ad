"""FedSAM (Qu et al., ICML 2022)."""

from ..losses import cross_entropy
from ..method import Method, register
from ..steps import sam


@register("fedsam", title="FedSAM", venue="ICML 2022")
def fedsam(rho: float = 0.1) -> Method:
    """FedAvg with sharpness-aware local steps.

    g at w + rho * g/||g||, same minibatch; then SGD at w. rho: 0.1 in the FedVLS paper; its beta = 0.9 is read as SGD's
    momentum (see `mofedsam` for the other reading). rho = 0 is FedAvg to the bit.
    Deviation: BatchNorm statistics move in the first pass only; no gradient clipping.
    """
    return Method(objective=cross_entropy(), step=sam(rho))
