"""Chains feature by feature, against autograd; products by either library, against float64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import WITHOUT_ONEDNN
from torch import nn
from torch.func import functional_call

from fedvls.flat import client_rows
from fedvls.lift import chain_of, products
from fedvls.lift.columns import Columns
from fedvls.models.mlp import Mlp
from fedvls.models.network import Network
from fedvls.models.text import FastText
from fedvls.numerics import repeatable

CPU = torch.device("cpu")
NETWORKS = {
    "mlp": lambda: Mlp(12, (9, 7), 5),
    "one layer": lambda: Mlp(12, (), 5),
    "layers without bias": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(12, 9, bias=False), nn.ReLU(), nn.Linear(9, 5, bias=False)
    ),
    "layers without ReLU": lambda: nn.Sequential(nn.Linear(12, 9), nn.Linear(9, 5)),
    "texts": lambda: FastText(20, 6, 5),
}
onednn = pytest.mark.skipif(not products.has_onednn(), reason=WITHOUT_ONEDNN)


@pytest.fixture(params=["MKL", pytest.param("oneDNN", marks=onednn)])
def library(request, monkeypatch):
    """Products of any size by this library, whatever the processor."""
    monkeypatch.setattr(products, "LARGE", 0)
    monkeypatch.setattr(products, "mkl_is_slow", lambda: request.param == "oneDNN")
    return request.param


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize("name", list(NETWORKS))
def test_outputs_and_gradients_are_autograds(name, batch, dtype, library):
    """Three clients with weights of their own, client by client; the features have a slope of their own."""
    draw, module = torch.Generator().manual_seed(0), NETWORKS[name]()
    texts, clients = name == "texts", 3
    x = torch.randn(clients, batch, 12, generator=draw, dtype=dtype)
    if texts:
        x = torch.randint(0, 20, (clients, batch, 4), generator=draw)
    params = {key: torch.randn(clients, *p.shape, generator=draw, dtype=dtype) for key, p in module.named_parameters()}
    slope = torch.randn(clients, batch, 5, generator=draw, dtype=dtype)
    into = {key: torch.full_like(p, torch.nan) for key, p in params.items()}
    chain = chain_of(Network(module, 5), CPU)
    assert isinstance(chain, Columns)
    forward = chain.forward(params, {}, x, None, features=True, statistics=True)
    assert forward.features is not None
    pull = torch.randn(forward.features.shape, generator=draw, dtype=dtype)
    chain.backward(forward, slope, pull, into)
    last = next(m for m in reversed(list(module.modules())) if isinstance(m, nn.Linear))
    for k in range(clients):
        leaves = {key: p[k].double().requires_grad_() for key, p in params.items()}
        caught = []
        hook = last.register_forward_pre_hook(lambda _, args, caught=caught: caught.append(args[0]))
        logits = functional_call(module, leaves, (x[k] if texts else x[k].double(),))
        hook.remove()
        assert close(forward.logits[k], logits, dtype)
        assert close(forward.features[k], caught[0], dtype)
        one_layer = not caught[0].requires_grad
        outputs, slopes = [logits], [slope[k].double()]
        if not one_layer:
            outputs, slopes = [logits, caught[0]], [slope[k].double(), pull[k].double()]
        for key, gradient in zip(leaves, torch.autograd.grad(outputs, list(leaves.values()), slopes), strict=True):
            assert close(into[key][k], gradient, dtype), key


def close(mine, theirs, dtype):
    bound = {torch.float64: 1e-13, torch.float32: 2e-6}[dtype]
    theirs = theirs.detach()
    return float((mine.double() - theirs).norm() / theirs.norm()) < bound


@onednn
@settings(deadline=None)
@given(st.integers(1, 3), st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**31))
def test_either_library_multiplies_matrices_of_any_shape(clients, m, k, n, seed):
    """Also views, with other numbers between the clients, and into such."""
    draw = torch.Generator().manual_seed(seed)
    left, right = (torch.randn(clients, rows, k + 3, generator=draw)[..., :k] for rows in (m, n))
    bias = torch.randn(clients, m, generator=draw)
    exact = left.double() @ right.double().mT
    for slow in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(products, "LARGE", 0)
            patch.setattr(products, "mkl_is_slow", lambda slow=slow: slow)
            place = torch.full((clients, m * n + 5), 7.0)
            into = place[:, : m * n].view(clients, m, n)
            assert products.times_transposed(left, right, into) is into
            for found, wanted in (
                (into, exact),
                (products.times_transposed(left, right), exact),
                (products.transposed_times(left.mT, right.mT), exact),
                (products.plus_product(bias, left, right), exact + bias.unsqueeze(2).double()),
                (products.plus_product(None, left, right), exact),
            ):
                torch.testing.assert_close(found.double(), wanted, rtol=0, atol=1e-5 * k**0.5)
            assert bool((place[:, m * n :] == 7).all())


@onednn
def test_only_large_float32_products_leave_mkl(monkeypatch):
    taken = []
    monkeypatch.setattr(products, "mkl_is_slow", lambda: taken.append(1) or False)
    for rows, dtype, asked in ((1024, torch.float32, 1), (1023, torch.float32, 0), (1024, torch.float64, 0)):
        taken.clear()
        products.times_transposed(torch.ones(1, rows, 32, dtype=dtype), torch.ones(1, 32, 32, dtype=dtype))
        assert len(taken) == asked, (rows, dtype)
    for rows, asked in ((1024, 0), (4096, 1)):  # where it would have to be given copies
        taken.clear()
        products.transposed_times(torch.ones(1, 32, rows), torch.ones(1, 32, 32))
        assert len(taken) == asked, rows


@settings(deadline=None)
@given(
    st.integers(1, 5), st.integers(2, 60), st.integers(2, 60), st.integers(1, 60), st.integers(0, 2**31), st.booleans()
)
def test_a_clients_products_do_not_depend_on_its_place_in_a_stack(clients, m, k, samples, seed, near):
    """Those of a layer's step, in minibatches as wide as chains make them. near: weights that are no rows of a stack,
    but a point near them, one client's right behind the other's. (A layer with one input is multiplied as a vector.)"""
    draw, width = torch.Generator().manual_seed(seed), products.aligned(samples)
    weight = client_rows({"": torch.empty(m, k)}, clients)[1][""].copy_(torch.randn(clients, m, k, generator=draw))
    weight = products.each_aligned(weight.contiguous() if near else weight)
    x, above = (torch.randn(clients, size, width, generator=draw) for size in (k, m))
    with repeatable(CPU, 1, "float32"):  # one thread, as workers have
        one, into = (client_rows({"": torch.empty(m, k)}, count)[1][""] for count in (1, clients))
        products.times_transposed(above, x, into)
        outputs, slopes = products.times_transposed(weight, x.mT), products.transposed_times(weight, above)
        for client in range(clients):
            w, a, b = (each[client : client + 1].clone() for each in (weight, x, above))
            assert torch.equal(products.times_transposed(b, a, one)[0], into[client])
            assert torch.equal(products.times_transposed(w, a.mT)[0], outputs[client])
            assert torch.equal(products.transposed_times(w, b)[0], slopes[client])


@pytest.mark.parametrize(
    ("samples", "slow", "width"),
    [(10, True, 16), (10, False, 12), (9, True, 12), (8, True, 8), (20, True, 20), (60, True, 64), (1, True, 4)],
)
def test_minibatches_are_padded_to_four_or_to_what_slow_mkl_takes_at_once(samples, slow, width, monkeypatch):
    """Sixteen, where at most six are missing."""
    monkeypatch.setattr(products, "mkl_is_slow", lambda: slow)
    assert products.good_width(samples) == width


def test_points_near_a_stacks_weights_are_laid_out_like_these():
    for shape, copied in (((3, 2, 5), True), ((3, 2, 6), False), ((1, 2, 5), False)):
        x = torch.arange(float(torch.Size(shape).numel())).view(shape)
        found = products.each_aligned(x)
        assert torch.equal(found, x)
        assert (found is not x) == copied
        assert found.stride(0) % 4 == 0 or shape[0] == 1


@pytest.mark.parametrize(
    ("vendor", "instructions", "slow"),
    [
        ("AuthenticAMD", "AVX512", True),
        ("AuthenticAMD", "AVX2", False),
        ("GenuineIntel", "AVX512", False),
        ("", "", False),
    ],
)
def test_the_processor_decides_not_a_clock(monkeypatch, vendor, instructions, slow):
    monkeypatch.setattr(products, "vendor", lambda: vendor)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: instructions)
    products.mkl_is_slow.cache_clear()
    assert products.mkl_is_slow() == (slow and products.has_onednn())
    products.mkl_is_slow.cache_clear()


def test_a_machine_that_does_not_tell_its_processor_keeps_mkl(tmp_path):
    told = tmp_path / "cpuinfo"
    assert products.vendor(told) == ""
    told.write_text("processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\n")
    assert products.vendor(told) == "AuthenticAMD"
