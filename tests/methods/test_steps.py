"""How a gradient becomes a direction, alone and for a stack of clients."""

import pytest
import torch

from fedvls import StepContext, sam, sgd
from fedvls.steps import joint_norm, momentum_sam


class Quadratic:
    """Gradient of 1/2 sum k w^2 per tensor, with a record of the calls."""

    def __init__(self, curvature):
        self.curvature, self.asked, self.points = curvature, [], []

    def __call__(self, point, update_statistics=True):
        self.asked.append(update_statistics)
        self.points.append(point)
        return {name: self.curvature * value for name, value in point.items()}


@pytest.fixture
def point():
    random = torch.Generator().manual_seed(1)
    return {"w": torch.randn(3, 2, generator=random), "b": torch.randn(2, generator=random)}


def test_sgd_follows_the_gradient(point):
    gradient = Quadratic(3.0)
    direction = sgd().direction(gradient, point, StepContext())
    assert all(torch.equal(direction[name], 3 * point[name]) for name in point)
    assert gradient.asked == [True]


def test_sam_perturbs_all_tensors_by_rho_together(point):
    gradient = Quadratic(3.0)
    sam(rho=0.25).direction(gradient, point, StepContext())
    moved = {name: gradient.points[1][name] - point[name] for name in point}
    assert float(joint_norm(moved)) == pytest.approx(0.25, rel=1e-5)
    assert float(joint_norm({"w": moved["w"]})) < 0.25


@pytest.mark.parametrize(("statistics", "asked"), [("first", [True, False]), ("both", [True, True])])
def test_sam_moves_batch_statistics_in_the_passes_it_is_told(point, statistics, asked):
    gradient = Quadratic(3.0)
    step = sam(rho=0.1, statistics=statistics)
    step.direction(gradient, point, StepContext())
    assert gradient.asked == asked
    assert step.passes == 2


def test_sam_of_radius_zero_is_sgd_to_the_bit(point):
    gradient = Quadratic(3.0)
    direction = sam(rho=0.0).direction(gradient, point, StepContext())
    plain = sgd().direction(Quadratic(3.0), point, StepContext())
    assert all(torch.equal(direction[name], plain[name]) for name in point)
    assert len(gradient.asked) == 1


def test_sam_at_a_stationary_point_stays_finite(point):
    direction = sam(rho=0.1).direction(Quadratic(0.0), point, StepContext())
    assert all((value == 0).all() for value in direction.values())


@pytest.mark.parametrize("step", [sam(rho=0.1), momentum_sam(rho=0.1, beta=0.7)], ids=lambda step: step.name)
def test_a_stack_of_clients_takes_each_clients_own_step(point, step):
    # Clients of very different gradient norms: a norm over the whole stack would give other directions.
    clients = [{name: scale * value for name, value in point.items()} for scale in (0.01, 1.0, 100.0)]
    context = StepContext({f"direction/{name}": torch.ones_like(value) for name, value in point.items()})
    alone = [step.direction(Quadratic(3.0), client, context) for client in clients]
    stacked = {name: torch.stack([client[name] for client in clients]) for name in point}
    together = step.direction(Quadratic(3.0), stacked, StepContext(context.broadcast, leading=1))
    for name in point:
        torch.testing.assert_close(together[name], torch.stack([direction[name] for direction in alone]))


def test_mofedsam_without_a_direction_from_the_server_is_sam(point):
    first_round = momentum_sam(rho=0.1, beta=0.3).direction(Quadratic(3.0), point, StepContext())
    plain = sam(rho=0.1).direction(Quadratic(3.0), point, StepContext())
    assert all(torch.equal(first_round[name], plain[name]) for name in point)


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_beta_weighs_own_and_server_direction(point, beta):
    broadcast = {f"direction/{name}": torch.full_like(value, 7.0) for name, value in point.items()}
    direction = momentum_sam(rho=0.1, beta=beta).direction(Quadratic(3.0), point, StepContext(broadcast))
    own = sam(rho=0.1).direction(Quadratic(3.0), point, StepContext())
    for name in point:
        expected = own[name] if beta else broadcast[f"direction/{name}"]
        torch.testing.assert_close(direction[name], expected)
