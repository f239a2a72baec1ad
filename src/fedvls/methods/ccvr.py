"""CCVR (Luo et al., NeurIPS 2021)."""

from ..errors import UsageError
from ..exchange import Exchange
from ..losses import cross_entropy
from ..method import Method, register
from ..programs import Calibration


@register("ccvr", title="CCVR", venue="NeurIPS 2021")
def ccvr(virtual_per_class: int = 500, calibration_epochs: int = 10, calibration_lr: float = 0.01) -> Method:
    """FedAvg, and after its last round a classifier retrained on virtual features.

    Clients send per class the count, mean and covariance of their features under the final model; the server pools
    them, samples virtual_per_class features per class from N(mu_c, Sigma_c) and retrains the classifier on them.
    The last round's accuracy is that of the calibrated model; `before_finish` holds the one before.
    Deviation: the numbers of virtual features and epochs are ours; the paper chooses them per data set.
    """
    for name, value in {"virtual_per_class": virtual_per_class, "calibration_epochs": calibration_epochs}.items():
        if value < 1:
            raise UsageError(f"ccvr: {name} = {value} must be >= 1")
    if calibration_lr <= 0:
        raise UsageError(f"ccvr: calibration_lr = {calibration_lr} must be > 0")
    return Method(
        objective=cross_entropy(),
        exchange=Exchange(up="count, mean and covariance of its features per class, once"),
        program=Calibration(virtual_per_class, calibration_epochs, calibration_lr),
    )
