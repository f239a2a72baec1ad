"""FedGF's server and step."""

import pytest
import torch

from fedvls.aggregation import ServerInputs, flatness_mean
from fedvls.steps import StepContext, flatness


@pytest.mark.golden("FedGF", "perturb_and_mix")
def test_fedgf_takes_the_gradient_at_the_worked_point(case):
    start, end = case.tensor("w_prev"), case.tensor("w_new")
    rule = flatness_mean(rho=case.inputs["g_rho"], threshold=case.inputs["c"], mode="fixed")
    outputs = rule.combine(ServerInputs(start={"w": start}, clients=[{"w": end}], weights=[1.0], epochs=5))
    case.check("global_perturbed", outputs.broadcast["perturbed/w"])
    assert float(outputs.broadcast["c"]) == pytest.approx(case.inputs["c"])

    asked = []

    def gradient(point, update_statistics=True):
        asked.append((point["w"], update_statistics))
        return {"w": case.tensor("g_local")}

    step, local = flatness(rho=case.inputs["rho"]), {"w": case.tensor("w_local")}
    step.direction(gradient, local, StepContext())  # the first round: no perturbed model yet, plain SAM
    case.check("local_perturbed", asked[1][0])
    step.direction(gradient, local, StepContext(broadcast=outputs.broadcast))
    case.check("eval_point", asked[3][0])
    assert [moves for _, moves in asked] == [True, False, True, False]


@pytest.mark.golden("FedGF", "c_from_divergence")
def test_fedgf_derives_c_from_the_worked_window(case):
    rule = flatness_mean(threshold=case.inputs["T_D"], mode="adaptive", window=case.inputs["W"])
    clients = case.rows("client_w")
    outputs = rule.combine(
        ServerInputs(
            start={"w": case.tensor("w_global")},
            clients=clients,
            weights=[1 / len(clients)] * len(clients),
            state={"window": torch.tensor(case.inputs["window_before"], dtype=torch.float32)},
        )
    )
    case.check("divergence", outputs.metrics["divergence"])
    assert outputs.state["window"].tolist() == case.expected("window_after")
    assert outputs.state["window"][-1] == case.expected("indicator")
    case.check("c", outputs.metrics["c"])


def test_a_saturated_window_warns_once(caplog):
    rule = flatness_mean(threshold=0.1, mode="adaptive", window=3)
    state: dict[str, torch.Tensor] = {}
    for _ in range(6):
        inputs = ServerInputs(start={"w": torch.zeros(2)}, clients=[{"w": torch.ones(2)}], weights=[1.0], state=state)
        state = rule.combine(inputs).state
    assert caplog.text.count("so c = 1") == 1


def test_auto_is_adaptive_with_one_epoch_and_fixed_with_more():
    still = ServerInputs(start={"w": torch.zeros(2)}, clients=[{"w": torch.zeros(2)}], weights=[1.0], epochs=1)
    assert flatness_mean().combine(still).metrics["c"] == 0
    many = ServerInputs(start={"w": torch.zeros(2)}, clients=[{"w": torch.zeros(2)}], weights=[1.0], epochs=5)
    assert flatness_mean().combine(many).metrics["c"] == 0.3
    # no update at all: the perturbed model is the model
    assert torch.equal(flatness_mean().combine(many).broadcast["perturbed/w"], torch.zeros(2))
