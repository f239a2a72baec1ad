"""The package's own kernels: MobileNetV2 in the stacked engine as the sequential one trains it, and the others."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
import torch

import fedvls
from augment.made_images import images
from fedvls import kernels
from fedvls.augment import draws, get_augmentation
from fedvls.kernels.folding import Folded, PlainInference
from fedvls.kernels.fused import Fused
from fedvls.kernels.fused_inference import FusedInference
from fedvls.kernels.structure import structure
from kernels import augmented
from kernels.checked import Checked
from kernels.networks import cohort, gradient_errors, papers_network
from kernels.objectives import BOUND, FEW, OBJECTIVES, assert_agrees, drawn

PAPERS = [[64] * 8 + [41, 17], [64] * 3, [50]]
"""Real samples in the minibatches of ten clients, of the few that are left later in an epoch, and of the last one."""


class Rounding(NamedTuple):
    of: tuple[torch.dtype, bool]
    """Type of activations, and whether products are rounded to TF32."""
    bound: float
    """Sums that nearly cancel come nearest to it: on an H200 1.1e-5, 1.0e-3 and 2.0e-2, the median 6e-8 and 3e-4."""


ROUNDING = {
    "float32": Rounding((torch.float32, False), 5e-5),
    "tf32": Rounding((torch.float32, True), 3e-3),
    "bf16": Rounding((torch.bfloat16, True), 4e-2),
}


@pytest.fixture(scope="module")
def noise():
    random = np.random.RandomState(0)
    x, y = random.randint(0, 256, (60, 3, 16, 16), dtype=np.uint8), np.arange(60) % 3
    return fedvls.FederatedData.from_arrays(x, y, x[:9], y[:9], name="noise", mean=(0.5,) * 3, std=(0.2,) * 3)


def run(data, method, engine, dtype, **more):
    fed = fedvls.Federation(
        data,
        partition=fedvls.dirichlet(beta=1.0, min_size=5),
        clients=3,
        model="mobilenetv2",
        engine=engine,
        dtype=dtype,
        device="cuda",
        augmentation="cifar",
    )
    return fed.run(method, 2, 2, batch_size=8, lr=0.002, out=None, local_every=100, **more)


@pytest.mark.parametrize(
    ("name", "mode"), [*((name, "eval") for name in ("fedavg", "fedvls", "fedsam", "fpl", "moon")), ("fedvls", "train")]
)
def test_two_rounds_end_no_further_from_float64_than_the_sequential_engine_does(noise, name, mode):
    """On so few samples BatchNorm multiplies rounding: float32 itself ends some percent away from float64, whoever
    computes. So the measure is the sequential engine's own distance."""
    assert kernels.available(torch.device("cuda"))
    exact, theirs, mine = (
        run(noise, name, engine, dtype, teacher_mode=mode).weights.tensors()
        for engine, dtype in (("sequential", "float64"), ("sequential", "float32"), ("stacked", "float32"))
    )
    assert distance(mine, exact) < 3 * distance(theirs, exact)


def distance(mine, theirs):
    """Relative, in the norm over all floating tensors together."""
    floating = [key for key, tensor in theirs.items() if tensor.is_floating_point()]
    apart = torch.cat([(mine[key].double() - theirs[key]).flatten() for key in floating]).norm()
    return float(apart / torch.cat([theirs[key].flatten() for key in floating]).norm())


@pytest.mark.parametrize("dtype", list(ROUNDING))
@pytest.mark.parametrize("rows", PAPERS, ids=len)
def test_every_operation_of_the_papers_step_is_within_its_rounding_of_float64(rows, dtype):
    """Forward and backward pass of MobileNetV2, 32x32 images in minibatches of 64."""
    here = cohort(papers_network(), rows, batch=64, size=32, dtype=torch.float32, device="cuda")
    found = Checked(Fused(*ROUNDING[dtype].of)).train(here)
    assert len(found) > 200
    assert_within(found, ROUNDING[dtype].bound)


@pytest.mark.parametrize("dtype", list(ROUNDING))
@pytest.mark.parametrize("images", [1000, 17])
def test_every_operation_of_the_papers_teacher_is_within_its_rounding_of_float64(images, dtype):
    here = cohort(papers_network(), [2], batch=2, size=32, dtype=torch.float32, device="cuda")
    tensors = {name: tensor[0] for name, tensor in (here.params | here.buffers).items()}
    checked = Checked(FusedInference(*ROUNDING[dtype].of), PlainInference(torch.float64))
    Folded(structure(here.module), tensors, ROUNDING[dtype].of[0], checked)(drawn_images((images, 3, 32, 32), 0))
    assert len(checked.errors) > 20
    assert_within(checked.errors, ROUNDING[dtype].bound)


def assert_within(errors, bound):
    beyond = {what: error for what, error in errors.items() if error > bound}
    assert not beyond, beyond


@pytest.mark.parametrize("rows", PAPERS, ids=len)
def test_gradients_of_the_papers_step_are_as_near_to_float64s_as_autograds(rows):
    """Layer by layer, in float32. ReLUs that rounding switches make both differ by about a percent."""
    here = cohort(papers_network(), rows, batch=64, size=32, dtype=torch.float32, device="cuda")
    found = gradient_errors(here)
    assert len(found) > 100
    beyond = {name: both for name, both in found.items() if both[0] > 0.05}
    assert not beyond, beyond
    mine, theirs = (sorted(errors)[len(found) // 2] for errors in zip(*found.values(), strict=True))
    assert mine < 2 * theirs


@pytest.mark.parametrize("dtype", ["float32", "tf32", "bf16"])
def test_the_same_bits_twice(noise, dtype):
    first, second = (run(noise, "fedvls", "stacked", dtype).weights.tensors() for _ in range(2))
    assert all(torch.equal(t, second[k]) for k, t in first.items())


def test_auto_takes_them_and_says_so(noise):
    header = run(noise, "fedvls", "auto", "bf16").header
    assert header["engine"]["name"] == "stacked"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("real", [None, 40])
@pytest.mark.parametrize("shape", [(64, 144, 32, 32), (64, 33, 7, 7), (64, 96)], ids=str)
def test_batch_norm_agrees_with_pytorchs_in_float64(shape, real, dtype):
    count = real or shape[0]
    x, slope = (drawn_images(shape, seed).to(dtype) for seed in (0, 1))
    slope[count:] = 0
    limit = None if real is None else torch.tensor(real, dtype=torch.int32, device="cuda")
    found = []
    for kind in (torch.float32, torch.float64):
        leaves = [x.detach().to(dtype if kind == torch.float32 else kind).requires_grad_()]
        leaves += [torch.linspace(0.5, 1.5, shape[1], device="cuda", dtype=kind, requires_grad=True) for _ in range(2)]
        running = [torch.ones(shape[1], device="cuda", dtype=kind) for _ in range(2)]
        if kind == torch.float32:
            y = kernels.batch_norm(*leaves, tuple(running), limit, 1e-5, 0.1)
            assert y is not None
            assert y.stride() == x.stride()
        else:
            y = torch.nn.functional.batch_norm(leaves[0][:count], *running, *leaves[1:], True, 0.1, 1e-5)
        slopes = torch.autograd.grad(y, leaves, slope[: len(y)].to(y.dtype))
        found.append([y[:count].detach(), *running, slopes[0][:count], *slopes[1:]])
    for mine, theirs in zip(*found, strict=True):
        assert float((mine.double() - theirs).norm() / theirs.norm()) < (1e-5 if dtype == torch.float32 else 5e-3)


def drawn_images(shape, seed):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) + 0.5
    return x.to("cuda", memory_format=torch.channels_last if len(shape) == 4 else torch.contiguous_format)


@pytest.mark.parametrize("dtype", list(BOUND), ids=str)
@pytest.mark.parametrize("name", list(OBJECTIVES))
def test_objectives_agree_with_autograd(name, dtype):
    shapes = ((6, 24, 10), (2, 160, 5)) + (((1, 1, 2), (3, 64, 100), (3, 20, 256)) if name in FEW else ())
    for shape in shapes:
        assert_agrees(drawn(*shape, dtype).to("cuda"), OBJECTIVES[name], (name, shape))


def test_a_teacher_of_short_numbers_is_read_too():
    batch = drawn(3, 20, 10, torch.float32).to("cuda").inputs
    short = batch.given("teacher_logits").bfloat16()
    kernel = kernels.objective(OBJECTIVES["fedvls"].terms, batch.logits.device)
    pairs = (kernel(replace(batch, teacher_logits=t), batch.logits) for t in (short, short.float()))
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(*pairs, strict=True))


def test_every_operation_gives_the_pixels_of_plain_pytorch():
    augmented.operations("cuda", each=64)


@pytest.mark.parametrize("side", [32, 64])
def test_a_gpu_augments_as_a_cpu_does_also_captured(side):
    recipe = get_augmentation("cifar")
    x = torch.from_numpy(images(2000, 3, side, side))
    first, second = (draws(recipe, len(x), seed=0, round=0, client=0, epoch=epoch) for epoch in (0, 1))
    here, numbers = x.to("cuda"), first.to("cuda")
    assert torch.equal(recipe(here, numbers).cpu(), recipe(x, first))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = recipe(here, numbers)
    numbers.copy_(second)
    graph.replay()
    assert torch.equal(out.cpu(), recipe(x, second))
