"""FedProx's pull, and the directions of FedSAM and MoFedSAM on a quadratic."""

import pytest
import torch

from fedvls import get_method, sam
from fedvls.steps import StepContext, momentum_sam


@pytest.mark.golden("FedProx")
def test_fedprox_adds_the_worked_term_and_gradient(case):
    w = case.tensor("w").requires_grad_()
    # One sample of one class: cross-entropy is 0, so the loss is the proximal term alone.
    loss = get_method("fedprox", mu=case.inputs["mu"]).loss(
        logits=torch.zeros(1, 1, dtype=case.dtype),
        labels=torch.zeros(1, dtype=torch.int64),
        params={"w": w},
        teacher_params={"w": case.tensor("w_global")},
    )
    case.check("term", loss)
    case.check("grad", torch.autograd.grad(loss, w)[0])


class Recorded:
    """A gradient function that remembers where it was asked."""

    def __init__(self, function):
        self.function, self.points = function, []

    def __call__(self, point, update_statistics=True):
        self.points.append(point["w"])
        return {"w": self.function(point["w"])}


@pytest.mark.golden("FedSAM", "quadratic_step")
def test_sam_climbs_by_rho_and_steps_with_the_gradient_found_there(case):
    matrix, shift, w = case.tensor("A"), case.tensor("b"), case.tensor("w")
    gradient = Recorded(lambda point: matrix @ point - shift)
    step = sam(rho=case.inputs["rho"], norm_eps=case.inputs["norm_eps"])
    direction = step.direction(gradient, {"w": w}, StepContext())["w"]
    first, second = gradient.points
    case.check("grad", matrix @ first - shift)
    case.check("perturbation", second - first)
    case.check("grad_perturbed", direction)
    parameter = w.clone().requires_grad_()
    parameter.grad = direction
    torch.optim.SGD(
        [parameter], lr=case.inputs["lr"], momentum=case.inputs["momentum"], weight_decay=case.inputs["weight_decay"]
    ).step()
    case.check("w_next", parameter)


@pytest.mark.golden("FedSAM", "mofedsam_direction")
def test_mofedsam_mixes_the_servers_direction_in(case):
    there = case.tensor("grad_perturbed")  # the same gradient everywhere, so that the climb does not change it
    context = StepContext(broadcast={"direction/w": case.tensor("server_delta")})
    step = momentum_sam(rho=0.1, beta=case.inputs["beta"])
    case.check("direction", step.direction(Recorded(lambda _: there), {"w": torch.zeros_like(there)}, context)["w"])
