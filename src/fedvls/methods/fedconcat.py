"""FedConcat (Diao, Li and He, AAAI 2024)."""

from typing import Literal

from ..errors import UsageError
from ..exchange import Exchange
from ..losses import cross_entropy
from ..method import Method, register
from ..programs import Concatenation


@register("fedconcat", title="FedConcat", venue="AAAI 2024")
def fedconcat(
    clusters: int | None = None,
    encoder_rounds: int | None = None,
    classifier_rounds: int | None = None,
    batches: int = 3,
    initial: Literal["auto", "random", "warm"] = "auto",
    encoder_weight_decay: float | None = None,
) -> Method:
    """Clusters of alike clients train encoders; the concatenated encoders get one classifier.

    1. k-means on label distributions (clusters: 2 up to ten classes, else 4 with clusters capped at 1.2 N/K clients).
    2. FedAvg inside each cluster for encoder_rounds (default: the run's rounds), all from the same weights.
    3. A linear classifier over the concatenated, frozen encoders, by FedAvg with equal weights and `batches`
       minibatches per client and round, for classifier_rounds (default: 20 per encoder round; original: 1000 to 50).
    initial: the classifier starts random, or warm from the clusters' own classifiers (default with over ten classes).
    The run's rounds count both stages. Before stage 3 the sum of the clusters' logits is evaluated.
    Deviation: the frozen encoders stay in eval mode, so that their BatchNorm statistics do not drift.
    """
    for name, value in {"clusters": clusters, "encoder_rounds": encoder_rounds, "batches": batches}.items():
        if value is not None and value < 1:
            raise UsageError(f"fedconcat: {name} = {value} must be >= 1")
    if classifier_rounds is not None and classifier_rounds < 0:
        raise UsageError(f"fedconcat: classifier_rounds = {classifier_rounds} must be >= 0")
    return Method(
        objective=cross_entropy(),
        exchange=Exchange(up="its label distribution, once", down="all clusters' encoders, once"),
        program=Concatenation(clusters, encoder_rounds, classifier_rounds, batches, initial, encoder_weight_decay),
    )
