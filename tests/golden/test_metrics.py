"""Drift, class-wise accuracy and the numbers of a results table."""

import numpy as np
import pytest
import torch

from fedvls import FederatedData
from fedvls.data.resident import ResidentData
from fedvls.evaluation import drift_diversity, evaluate
from fedvls.models import Network
from fedvls.report.tables import Row
from fedvls.runs.result import scores


@pytest.mark.golden("metrics", "drift_diversity")
def test_drift_diversity_is_the_worked_ratio(case):
    start = {"w": case.tensor("w_global_start")}
    case.check("drift", drift_diversity([(start, end) for end in case.rows("client_w")]))


@pytest.mark.golden("metrics", "classwise_and_confusion")
def test_confusion_has_true_classes_in_rows(case):
    labels, predicted, classes = (case.inputs[k] for k in ("labels", "preds", "num_classes"))
    # Samples are one-hot predictions and the model is the identity, so its argmax is the worked prediction.
    x = np.eye(classes, dtype=np.float64)[predicted]
    model = torch.nn.Linear(classes, classes, bias=False)
    torch.nn.init.eye_(model.weight)
    network, cpu = Network(model, classes), torch.device("cpu")
    data = ResidentData(FederatedData.from_arrays(x, labels, x, labels), cpu, case.dtype)
    seen = evaluate(network, network.start(cpu, case.dtype), data, classes)
    case.check("confusion_rows_true", seen.confusion.tolist())
    case.check("classwise", seen.per_class)
    case.check("accuracy", seen.accuracy)


@pytest.mark.golden("metrics", "max_then_mean_std")
def test_a_row_is_the_mean_and_population_deviation_of_the_best_rounds(case):
    best = [scores(curve)["best"] for curve in case.tensor("curves").tolist()]
    case.check("max_per_seed", best)
    row = Row("m", "s", 3, [0, 1, 2], {"best": best}, complete=True, vacant=0.0, runs=[])
    average, deviation = row.mean_std("best")
    case.check("mean", average)
    case.check("std_population", deviation)
    assert deviation < 0.9 * case.expected("std_sample")
