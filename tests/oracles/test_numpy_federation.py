"""Methods with memory, against a federation written in plain numpy.

The oracle below is the whole of federated training for a linear softmax classifier: float64, full batches, two to three
clients, three rounds, gradients by hand (softmax - onehot), and each method's update copied from its paper's equations,
not from the package. The package must end with the same weights to 1e-9, with and without momentum.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support import hand_made
from torch import nn

import fedvls

ROUNDS, EPOCHS, LR, DECAY = 3, 4, 0.1, 1e-3
random = np.random.RandomState(7)
X = random.normal(size=(30, 4))
Y = np.arange(30) % 3
SHARES = [list(range(0, 5)), list(range(5, 14)), list(range(14, 30))]
START = random.normal(size=(3, 4)) * 0.1


def gradient(w: np.ndarray, rows: list[int]) -> np.ndarray:
    """Of the mean cross-entropy of logits x w^T."""
    z = X[rows] @ w.T
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    return (p - np.eye(3)[Y[rows]]).T @ X[rows] / len(rows)


def local(start: np.ndarray, rows: list[int], momentum: float, shift: np.ndarray, pull: float) -> np.ndarray:
    """SGD: v = m v + g + shift + pull (w - start) + decay w;  w = w - lr v."""
    w, velocity = start, np.zeros_like(start)
    for _ in range(EPOCHS):
        velocity = momentum * velocity + gradient(w, rows) + shift + pull * (w - start) + DECAY * w
        w = w - LR * velocity
    return w


def weighted(models: list[np.ndarray], weights: np.ndarray) -> np.ndarray:
    return sum(a * m for a, m in zip(weights, models, strict=True))


def oracle(name: str, momentum: float) -> np.ndarray:
    """The method's equations over ROUNDS rounds, every client taking EPOCHS full-batch steps."""
    w, n, many = START.copy(), np.array([len(s) for s in SHARES]), len(SHARES)
    share = n / n.sum()
    steps = sum((1 - momentum**t) / (1 - momentum) for t in range(1, EPOCHS + 1))
    zero, alpha = np.zeros_like(w), 0.01
    c, h, m, v, own = zero, zero, zero, np.full_like(w, 1e-6), [zero] * many
    for _ in range(ROUNDS):
        shifts = [c - o if name == "scaffold" else -o for o in own]  # both methods add a constant to the gradient
        pull = alpha if name == "feddyn" else 0.0
        ends = [local(w, rows, momentum, shift, pull) for rows, shift in zip(SHARES, shifts, strict=True)]
        change = weighted([e - w for e in ends], share)
        if name == "scaffold":
            new = [own[i] - c + (w - ends[i]) / (steps * LR) for i in range(many)]
            c, own = c + sum(new[i] - own[i] for i in range(many)) / many, new
            w = w + change
        elif name == "feddyn":
            own = [own[i] - alpha * (ends[i] - w) for i in range(many)]
            h = h - alpha * sum(e - w for e in ends) / many
            w = sum(ends) / many - h / alpha
        elif name == "fedavgm":
            m = 0.9 * m + change
            w = w + m
        elif name == "fedadam":
            m, v = 0.9 * m + 0.1 * change, 0.99 * v + 0.01 * change**2
            w = w + 0.01 * m / (np.sqrt(v) + 1e-3)
        else:  # fedavg, and fednova where all take the same number of steps
            w = w + change
    return w


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("name", ["fedavg", "scaffold", "feddyn", "fednova", "fedavgm", "fedadam"])
def test_weights_after_three_rounds_are_the_equations(name, momentum):
    module = nn.Linear(4, 3, bias=False, dtype=torch.float64)
    with torch.no_grad():
        module.weight.copy_(torch.from_numpy(START))
    data = fedvls.FederatedData.from_arrays(X, Y, X, Y)
    fed = fedvls.Federation(data, partition=hand_made(*SHARES), clients=3, model=module, dtype="float64", device="cpu")
    result = fed.run(name, ROUNDS, EPOCHS, batch_size=64, lr=LR, momentum=momentum, weight_decay=DECAY, out=None)
    expected = oracle(name, momentum)
    assert result.weights.params["weight"].numpy() == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_fednova_with_uneven_steps_is_its_equation():
    """Three clients with 1, 2 and 4 steps, momentum 0.5; deltas given, so only the server's equation is at work.

    a = sum_{t<=K} (1 - 0.5^t)/0.5 = 1, 2.5, 6.125; p = .2, .3, .5; tau = .2*1 + .3*2.5 + .5*6.125 = 4.0125.
    """
    from fedvls.aggregation import ServerInputs, normalised_mean

    deltas = np.array([[1.0, 0.0], [0.5, -1.0], [2.0, 1.0]])
    a, p = np.array([1.0, 2.5, 6.125]), np.array([0.2, 0.3, 0.5])
    expected = 4.0125 * (p / a) @ deltas
    inputs = ServerInputs(
        start={"w": torch.zeros(2, dtype=torch.float64)},
        clients=[{"w": torch.from_numpy(d)} for d in deltas],
        weights=p.tolist(),
        steps=[1, 2, 4],
        momentum=0.5,
    )
    assert normalised_mean().combine(inputs).params["w"].numpy() == pytest.approx(expected, rel=1e-12)


def test_pooled_class_statistics_are_those_of_all_samples_together():
    """CCVR: numpy's mean and covariance of the joined samples, from each client's own."""
    from fedvls.programs.calibration import ClassStatistics, draw_features

    parts = [random.normal(size=(n, 3)) + n for n in (1, 4, 7)]
    own = [ClassStatistics.of(part, np.zeros(len(part), dtype=int), classes=2) for part in parts]
    together = own[0].joined(own[1]).joined(own[2])
    joined = np.concatenate(parts)
    assert together.count.tolist() == [12, 0]
    assert together.mean[0] == pytest.approx(joined.mean(0), rel=1e-12)
    assert together.covariance(0) == pytest.approx(np.cov(joined, rowvar=False), rel=1e-9)
    drawn = draw_features(together.mean[0], together.covariance(0), 40_000, seed=0, label=0)
    assert drawn.mean(0) == pytest.approx(together.mean[0], abs=0.1)
    assert np.cov(drawn, rowvar=False) == pytest.approx(together.covariance(0), rel=0.1, abs=0.3)


def test_virtual_features_do_not_hang_on_the_last_bit_of_the_statistics():
    """Five samples in eight dimensions: a singular covariance, whose eigenvectors rounding turns and flips."""
    from fedvls.programs.calibration import draw_features

    samples = random.normal(size=(5, 8))
    covariance = np.cov(samples, rowvar=False)
    turned = random.normal(size=(8, 8)) * 1e-15
    drawn, again = (draw_features(np.zeros(8), c, 100, seed=0, label=3) for c in (covariance, covariance + turned))
    assert np.abs(drawn - again).max() < 1e-12 * np.abs(drawn).max()


def test_calibration_changes_the_classifier_alone_and_is_recorded(stripes):
    fed = fedvls.Federation(stripes, partition=fedvls.dirichlet(beta=0.3), clients=3, device="cpu")
    plain = fed.run("fedavg", 3, 2, out=None)
    calibrated = fed.run("ccvr", 3, 2, out=None)
    assert calibrated.records[-1]["before_finish"] == plain.last
    assert calibrated.last > plain.last
    for key, tensor in plain.weights.tensors().items():
        assert torch.equal(tensor, calibrated.weights.tensors()[key]) == (not key.startswith("classifier")), key
