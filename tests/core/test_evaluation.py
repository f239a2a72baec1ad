"""Accuracy, per class and in all; drift; and what a class is to a client."""

import numpy as np
import pytest
import torch
from support import batch_norm_net
from torch import nn

from fedvls import FederatedData
from fedvls.data.resident import ResidentData
from fedvls.evaluation import Evaluation, drift_diversity, evaluate
from fedvls.groups import class_groups, group_accuracy, summarise_groups
from fedvls.models import Network

CPU = torch.device("cpu")


@pytest.fixture
def identity():
    """A network whose logits are its input, and its state."""
    model = nn.Linear(3, 3, bias=False)
    nn.init.eye_(model.weight)
    network = Network(model, 3)
    return network, network.start(CPU, torch.float32)


def test_evaluation_covers_the_whole_test_set_in_order(identity):
    # 2500 samples are three batches of at most 1000.
    labels = np.arange(2500) % 3
    logits = np.eye(3, dtype=np.float32)[np.where(np.arange(2500) < 2400, labels, (labels + 1) % 3)]
    data = ResidentData(FederatedData.from_arrays(logits[:9], labels[:9], logits, labels), CPU, torch.float32)
    seen = evaluate(*identity, data, 3)
    assert seen.confusion.sum() == 2500
    assert seen.confusion.sum(1).tolist() == [834, 833, 833]
    assert seen.accuracy == 2400 / 2500
    # -log softmax of a one-hot row: log(e + 2) - 1 at the label, log(e + 2) elsewhere.
    expected = np.log(np.e + 2) - 2400 / 2500
    assert seen.loss == pytest.approx(expected, rel=1e-6)


def test_evaluation_takes_no_gradient(identity):
    network, state = identity
    for parameter in state.params.values():
        parameter.requires_grad_()
    x = np.eye(3, dtype=np.float32)
    data = ResidentData(FederatedData.from_arrays(x, [0, 1, 2], x, [0, 1, 2]), CPU, torch.float32)
    assert evaluate(network, state, data, 3).accuracy == 1.0


def test_batch_norm_is_evaluated_with_its_running_statistics_and_they_stay(stripes):
    module = batch_norm_net()
    network = Network(module, 5)
    state, data = network.start(CPU, torch.float32), ResidentData(stripes, CPU, torch.float32)
    before = state.copy()
    seen = evaluate(network, state, data, 5)
    predicted = module.eval()(torch.from_numpy(stripes.x_test)).argmax(-1).numpy()
    assert seen.accuracy == (predicted == stripes.y_test).mean()
    assert seen.confusion.sum(0).tolist() == np.bincount(predicted, minlength=5).tolist()
    assert all(torch.equal(tensor, before.tensors()[name]) for name, tensor in state.tensors().items())


def test_a_class_without_test_samples_has_accuracy_zero_and_not_nan():
    seen = Evaluation(np.array([[3, 1, 0], [0, 0, 0], [0, 0, 4]]), loss=0.0)
    assert seen.per_class == [0.75, 0.0, 1.0]
    assert seen.accuracy == 7 / 8


@pytest.mark.parametrize(
    ("drifts", "expected"),
    [
        ([[1, 2], [1, 2], [1, 2], [1, 2]], 1 / 4),  # all alike: 1/N
        ([[3, 0], [0, 2]], 1.0),  # orthogonal
        ([[1, 0], [-0.9, 0]], (1 + 0.81) / 0.01),  # nearly cancelling
        ([[5, 5]], 1.0),
    ],
)
def test_drift_diversity_of_alike_orthogonal_and_opposed_drifts(drifts, expected):
    start = {"w": torch.tensor([0.5, -0.5], dtype=torch.float64)}
    moves = [(start, {"w": start["w"] + torch.tensor(drift, dtype=torch.float64)}) for drift in drifts]
    assert drift_diversity(moves) == pytest.approx(expected)


def test_drift_is_measured_from_each_clients_own_start():
    moves = [({"w": torch.tensor([9.0])}, {"w": torch.tensor([10.0])}), ({"w": torch.zeros(1)}, {"w": torch.ones(1)})]
    assert drift_diversity(moves) == 1 / 2


def test_drift_diversity_sums_over_all_tensors():
    start = {"a": torch.zeros(1), "b": torch.zeros(2)}
    clients = [{"a": torch.ones(1), "b": torch.zeros(2)}, {"a": torch.zeros(1), "b": torch.ones(2)}]
    assert drift_diversity([(start, end) for end in clients]) == pytest.approx((1 + 2) / (1 + 2))


@pytest.mark.parametrize("moves", [[0.0, 0.0], [1.0, -1.0]])
def test_drift_that_cancels_has_no_diversity(moves):
    assert drift_diversity([({"w": torch.zeros(2)}, {"w": torch.full((2,), move)}) for move in moves]) is None


def test_groups_are_cut_at_the_mean_over_all_classes():
    # Client 0 of the published table: majority 5, 8, 9 and minority 3; its mean is 333.8.
    counts = np.array([0, 0, 0, 141, 0, 1471, 0, 0, 1360, 366])
    groups = {name: np.flatnonzero(mask).tolist() for name, mask in class_groups(counts).items()}
    assert groups == {"vacant": [0, 1, 2, 4, 6, 7], "minority": [3], "majority": [5, 8, 9]}


@pytest.mark.parametrize("counts", [[4, 4, 4], [0, 0, 9], [1, 2, 3], [5, 0, 1]])
def test_every_class_is_in_exactly_one_group(counts):
    assert np.stack(list(class_groups(np.array(counts)).values())).sum(0).tolist() == [1, 1, 1]


def test_a_count_equal_to_the_mean_is_a_minority():
    assert class_groups(np.array([4, 4, 4]))["minority"].all()


def test_group_accuracy_is_the_mean_over_the_groups_classes():
    accuracy = group_accuracy([0.1, 0.3, 0.5, 0.9], np.array([0, 0, 1, 9]))
    assert accuracy == {"vacant": pytest.approx(0.2), "minority": 0.5, "majority": 0.9}


def test_a_group_without_classes_has_no_accuracy():
    assert group_accuracy([0.5, 0.7], np.array([2, 2])) == {
        "vacant": None,
        "minority": pytest.approx(0.6),
        "majority": None,
    }


def test_the_summary_is_the_mean_over_clients_that_have_the_group():
    clients = [
        {"after": {"vacant": 0.2, "minority": None, "majority": 0.9}},
        {"after": {"vacant": 0.4, "minority": None, "majority": 0.7}},
        {"after": {"vacant": 0.0, "minority": None, "majority": 0.8}},
        {"after": {"vacant": None, "minority": None, "majority": 0.8}},
    ]
    summary = summarise_groups(clients, "after")
    # 0 is an accuracy, None is not: vacant is (0.2 + 0.4 + 0) / 3.
    assert summary == {"vacant": pytest.approx(0.2), "minority": None, "majority": pytest.approx(0.8)}
