"""MOON (Li, He and Song, CVPR 2021)."""

from typing import Literal

from ..errors import UsageError
from ..exchange import keep_model
from ..losses import cross_entropy, model_contrast
from ..method import Method, register
from ..models.adapt import projection_head


@register("moon", title="MOON", venue="CVPR 2021")
def moon(mu: float = 0.01, tau: float = 0.5, width: int = 256, hidden: Literal["half", "full"] = "half") -> Method:
    """Cross-entropy plus contrast: near the received model's features, away from the client's own last ones.

    L = CE(z, y) + mu * mean_i -log( e^{s+/tau} / (e^{s+/tau} + e^{s-/tau}) ), s+- cosines of projected features.
    mu: 0.01 in the FedVLS paper, 1 to 5 in the original; tau 0.5 in both.
    The model gets a projection head d -> d//2 -> 256 before its classifier, as in the FedVLS authors' program; the
    original's d -> d -> 256 is hidden="full". Both references run in eval mode.
    Deviation: no contrast at a client's first participation, as in the original; the FedVLS authors' program contrasts
    with an unrelated random model there.
    """
    if mu < 0 or tau <= 0 or width < 1:
        raise UsageError(f"moon: mu = {mu} must be >= 0, tau = {tau} > 0 and width = {width} >= 1")
    return Method(
        objective=cross_entropy() + mu * model_contrast(tau),
        exchange=keep_model(),
        adapt=projection_head(width, hidden),
    )
