"""Networks with a client axis on plain PyTorch operations: the same results as autograd, one client at a time."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from support import command_environment
from torch import nn

from fedvls import kernels
from fedvls.kernels.plain_objective import PlainObjective
from fedvls.losses import cross_entropy
from fedvls.models import MODELS
from fedvls.models.mobilenetv2 import MobileNetV2
from kernels.networks import apart, cohort, errors, small_network


def test_mobilenetv2_of_several_clients_equals_autograd_of_each() -> None:
    found = errors(cohort(MobileNetV2(3, 5), [3, 4], batch=4, size=16, dtype=torch.float64), torch.float64)
    assert max(found.values()) < 1e-10, found


@pytest.mark.parametrize(("channels", "size", "rows"), [(1, 5, [2, 3]), (3, 6, [5]), (2, 1, [4, 2, 3])])
def test_odd_sizes_and_any_number_of_clients_equal_autograd(channels: int, size: int, rows: list[int]) -> None:
    found = errors(cohort(small_network(channels), rows, batch=5, size=size, dtype=torch.float64), torch.float64)
    assert max(found.values()) < 1e-9, found


def test_what_padding_holds_changes_nothing() -> None:
    """Same bits with numbers and with zeros in the samples beyond `rows`."""
    one, other = (cohort(small_network(), [2, 4], batch=4, size=6, dtype=torch.float64) for _ in range(2))
    other.x[0, 2:] = 0
    other.d_logits[0, 2:] = 7
    one.module.load_state_dict(other.module.state_dict())
    for name, tensor in other.params.items():
        one.params[name].copy_(tensor)
    one.train(torch.float64)
    other.train(torch.float64)
    assert all(torch.equal(one.into[name], other.into[name]) for name in one.into)
    assert all(torch.equal(one.buffers[name], other.buffers[name]) for name in one.buffers)


def test_a_client_without_samples_keeps_its_statistics_and_gets_no_gradient() -> None:
    here = cohort(small_network(), [0, 3], batch=3, size=4, dtype=torch.float64)
    before = {name: b[0].clone() for name, b in here.buffers.items()}
    here.train(torch.float64)
    assert all(torch.equal(before[name], b[0]) for name, b in here.buffers.items())
    assert all(int(slope[0].count_nonzero()) == 0 for slope in here.into.values())


def test_statistics_stay_where_they_are_if_not_asked_for() -> None:
    here = cohort(small_network(), [3, 3], batch=3, size=4, dtype=torch.float64)
    before = {name: b.clone() for name, b in here.buffers.items()}
    network = kernels.convnet(here.module, torch.float64)
    assert network is not None
    network.forward(here.params, here.buffers, here.x, None, features=False, statistics=False)
    assert all(torch.equal(before[name], b) for name, b in here.buffers.items())


def test_a_folded_network_equals_the_module_in_eval_mode_also_after_taking_other_weights() -> None:
    first, second = (_trained(seed) for seed in (0, 1))
    x = torch.randn(6, 3, 7, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    folded = kernels.folded(first, _tensors(first), torch.float64)
    assert folded is not None
    for module in (first, second):
        folded.refresh(_tensors(module))
        logits, features = folded(x)
        assert apart(logits, module(x).detach()) < 1e-12
        assert torch.allclose(module.get_submodule("classifier")(features), logits)


def _trained(seed: int) -> nn.Module:
    """A network whose BatchNorms are no longer the identity."""
    random = torch.Generator().manual_seed(seed)
    module = small_network().double().eval()
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            if tensor.dim() == 1:
                tensor.uniform_(0.5, 1.5, generator=random)
    return module


def _tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


@pytest.mark.parametrize("model", ["resnet18", "mlp"])
def test_other_networks_are_left_to_other_engines(model: str) -> None:
    module = MODELS.build(model, sample_shape=(3, 32, 32), classes=5)
    assert kernels.convnet(module, torch.float32) is None
    assert kernels.folded(module, _tensors(module), torch.float32) is None


def _frozen(module: nn.Module) -> None:
    next(module.parameters()).requires_grad_(False)


def _cumulative(module: nn.Module) -> None:
    module.get_submodule("top")[1].momentum = None  # type: ignore[index]


def _gelu(module: nn.Module) -> None:
    module.get_submodule("blocks")[0].body[2] = nn.GELU()  # type: ignore[index]


@pytest.mark.parametrize("change", [_frozen, _cumulative, _gelu])
def test_a_network_that_differs_in_one_place_is_not_taken_for_the_known_one(change) -> None:  # type: ignore[no-untyped-def]
    module = small_network()
    assert kernels.convnet(module, torch.float32) is not None
    change(module)
    assert kernels.convnet(module, torch.float32) is None


def test_a_cpu_does_without_triton() -> None:
    objective = "fedvls.kernels.objective(fedvls.get_method('fedvls').objective.terms, torch.device('cpu'))"
    code = f"import sys, torch, fedvls, fedvls.kernels; assert {objective}; sys.exit('triton' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=command_environment(), check=False).returncode == 0


def test_without_triton_plain_operations_compute_objectives(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert isinstance(kernels.objective([cross_entropy()], torch.device("cpu")), PlainObjective)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert isinstance(kernels.objective([cross_entropy()], torch.device("cpu")), PlainObjective)
