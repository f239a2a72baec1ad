"""bf16 in stacks of linear chains on a CPU: the products are short, the weights are the sequential engine's, and what
is learned is float32's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support import assert_close, small_mlp
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode

import fedvls
from fedvls import (
    methods,  # noqa: F401  (registers them)
    numerics,
)
from fedvls.lift import chain_of
from fedvls.method import METHODS
from fedvls.models.network import Network
from fedvls.numerics import forward_precision, repeatable

NAMES = [entry.name for entry in METHODS if entry.build.__module__.startswith("fedvls.")]
CPU = torch.device("cpu")


class Products(TorchDispatchMode):
    """The types of factors of every product, by operation."""

    def __init__(self):
        super().__init__()
        self.found = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function._schema.name.removeprefix("aten::")
        if "mm" in name:
            self.found |= {(name, tensor.dtype) for tensor in args if isinstance(tensor, torch.Tensor)}
        return function(*args, **(kwargs or {}))


def test_a_chain_multiplies_short_numbers_and_its_gradients_are_autocasts():
    """Gradients in float32, each within bf16's rounding (2^-8) of autograd's behind autocast."""
    draw, module = torch.Generator().manual_seed(0), small_mlp()
    x, slope = torch.randn(2, 7, 16, generator=draw), torch.randn(2, 7, 5, generator=draw)
    params = {name: torch.stack([p.detach(), 1.5 * p.detach()]) for name, p in module.named_parameters()}
    into = {name: torch.full_like(p, torch.nan) for name, p in params.items()}
    chain = chain_of(Network(module, 5), CPU)
    with repeatable(CPU, 1, "bf16"):
        with Products() as products:
            forward = chain.forward(params, {}, x, None, features=True, statistics=True)
            chain.backward(forward, slope, None, into)
        assert products.found == {(name, torch.bfloat16) for name in ("baddbmm", "bmm")}
        assert forward.logits.dtype == forward.features.dtype == torch.float32
        for k in range(2):
            leaves = {name: p[k].clone().requires_grad_() for name, p in params.items()}
            with forward_precision(CPU):
                logits = functional_call(module, leaves, (x[k],))
            torch.testing.assert_close(forward.logits[k], logits.float().detach(), rtol=2**-8, atol=2**-8)
            gradients = torch.autograd.grad(logits.float(), list(leaves.values()), slope[k])
            for name, gradient in zip(leaves, gradients, strict=True):
                assert float((into[name][k] - gradient).norm() / gradient.norm()) < 2**-8, name


def trained(data, method, engine, dtype, model):
    values = {"classifier_rounds": 2} if method == "fedconcat" else {}
    partition = fedvls.dirichlet(beta=0.5, min_size=5)
    settings = {"clients": 4, "model": model, "engine": engine, "dtype": dtype, "device": "cpu"}
    fed = fedvls.Federation(data, partition=partition, **settings)
    built = fedvls.get_method(method, **values)
    return fed.run(built, 2, 2, batch_size=10, out=None, local_every=100).weights.tensors()


@pytest.mark.parametrize("name", NAMES)
def test_two_rounds_end_nearer_to_the_sequential_engines_bf16_than_to_float32(stripes, name):
    """Both round where autocast does; what remains is the order of sums."""
    mine = trained(stripes, name, "stacked", "bf16", small_mlp())
    assert_close(mine, trained(stripes, name, "sequential", "bf16", small_mlp()), 5e-4)
    with pytest.raises(AssertionError):
        assert_close(mine, trained(stripes, name, "stacked", "float32", small_mlp()), 2e-5)


@pytest.mark.parametrize("method", ["fedvls", "fedsam"])
def test_texts_agree_too(method):
    """Vectors of tokens stay float32: they are summed, not multiplied."""
    random = np.random.RandomState(0)
    x, y = random.randint(0, 30, (80, 7)), np.arange(80) % 4
    data = fedvls.FederatedData.from_arrays(x, y, x[:8], y[:8], name="words", vocabulary=30)
    mine, theirs = (trained(data, method, engine, "bf16", "fasttext") for engine in ("stacked", "sequential"))
    assert_close(mine, theirs, 5e-4)


@pytest.mark.parametrize("method", ["fedavg", "fedvls"])
def test_three_seeds_learn_digits_as_well(method):
    scores = {}
    for dtype in ("float32", "bf16"):
        found = []
        for seed in range(3):
            settings = {"model": "mlp", "seed": seed, "engine": "stacked", "dtype": dtype, "device": "cpu"}
            fed = fedvls.Federation("digits", partition=fedvls.dirichlet(beta=0.5), **settings)
            found.append(fed.run(method, 30, 2, lr=0.05, out=None, local_every=100).mean_last_five)
        scores[dtype] = sum(found) / 3
    assert scores["float32"] > 0.8
    assert abs(scores["bf16"] - scores["float32"]) < 0.01, scores


def test_a_processor_without_such_instructions_is_said(monkeypatch, caplog):
    for has in (True, False):
        monkeypatch.setattr(numerics, "multiplies_short_numbers", lambda has=has: has)
        for dtype in ("bf16", "float32"):
            numerics.resolve_device("cpu", dtype)
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "this processor has no instructions for bfloat16"
    ]
