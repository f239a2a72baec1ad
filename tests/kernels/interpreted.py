"""The Triton kernels against the plain operations, under Triton's interpreter: `python interpreted.py <check>`.

In a process of its own, because the interpreter must be chosen before Triton is imported and then serves all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import augmented
import objectives
import torch
from checked import Checked
from networks import apart, cohort, errors, small_network
from torch import Tensor
from torch.nn import functional

from fedvls import kernels
from fedvls.kernels.fused import Fused
from fedvls.kernels.reference import Reference
from fedvls.kernels.values import Delta, Operations, Parts, Raw, Source, Statistics, Tracked

FUSED, PLAIN = Fused(torch.float32, tf32=False), Reference(torch.float32)
EITHER = (FUSED, PLAIN)
TOLERANCE = 2e-5


class Draw:
    """Random tensors of one case: K clients, B samples, some of them padding."""

    def __init__(self, seed: int, clients: int, batch: int) -> None:
        self.random = torch.Generator().manual_seed(seed)
        self.clients, self.batch = clients, batch
        self.rows = torch.tensor([batch - 2 * k for k in range(clients)], dtype=torch.int32)

    def __call__(self, *shape: int) -> Tensor:
        return torch.randn(self.clients, *shape, generator=self.random)

    def image(self, size: int, channels: int) -> Tensor:
        return self(self.batch, size, size + 1, channels) + 0.5

    def normal(self, channels: int) -> Tensor:
        return self(4, channels).abs() + 0.1

    def delta(self, size: int, channels: int, like: Tensor | None = None) -> Delta:
        g = self.image(size, channels) if like is None else torch.randn(like.shape, generator=self.random)
        return Delta(g, torch.randn(g.shape, generator=self.random), self(3, channels))

    def only_real(self, x: Tensor) -> Tensor:
        return PLAIN._cleared(x, self.rows)


def same(mine: Tensor, theirs: Tensor, what: object) -> None:
    assert apart(mine, theirs) < TOLERANCE, (what, apart(mine, theirs))


def normals(draw: Draw, both: list[Statistics], channels: int) -> list[list[Tensor]]:
    """What the two make of their own statistics: normal, running mean and variance, batches seen."""
    gamma, beta, mean, var = draw(channels), draw(channels), draw(channels), draw(channels).abs()
    found = []
    for ops, statistics in zip(EITHER, both, strict=True):
        tracked = Tracked(mean.clone(), var.clone(), torch.zeros(draw.clients, dtype=torch.int64))
        normal = ops.normalise(statistics, draw.rows, gamma, beta, tracked, 1e-5, 0.1)
        found.append([normal, tracked.mean, tracked.var, tracked.batches])
    return found


def forward_agrees(draw: Draw, made: list[tuple[Tensor, Statistics]], what: object) -> None:
    (mine, mine_of), (theirs, theirs_of) = made
    same(draw.only_real(mine), draw.only_real(theirs), what)
    for one, other in zip(*normals(draw, [mine_of, theirs_of], mine.shape[-1]), strict=True):
        same(one, other, what)


def added(ops: Operations, left: Parts | None, into: Tensor) -> Tensor:
    """The weights' gradient, its parts added."""
    if left is not None:
        ops.summed(left)
    return into


def backward_agrees(
    draw: Draw, made: list[tuple[Tensor, Tensor, Tensor]], units: tuple[Raw, ...], what: object
) -> None:
    """Gradients, the weights' gradients, and what BatchNorm's backward makes of the sums."""
    (g, sums, dw), (g2, sums2, dw2) = made
    same(draw.only_real(g), draw.only_real(g2), what)
    same(dw, dw2, what)
    for which, unit in enumerate(units, 1):
        channels = unit.y.shape[-1]
        found = []
        for ops, total in zip(EITHER, (sums, sums2), strict=True):
            into = draw(channels) * torch.nan, draw(channels) * torch.nan
            found.append([ops.moments(total, which, g2, unit, draw.rows, into).coefficients, *into])
        for one, other in zip(*found, strict=True):
            same(one, other, what)


def pointwise() -> None:
    for seed, (inputs, outputs, size) in enumerate(((3, 5, 2), (24, 40, 3), (70, 33, 2), (1, 1, 1))):
        draw = Draw(seed, 2, 5)
        x, w = draw.image(size, inputs), draw(outputs, inputs)
        for normal in (None, draw.normal(inputs)):
            forward_agrees(draw, [ops.pointwise(x, w, normal, draw.rows) for ops in EITHER], (inputs, outputs))


def pointwise_backward() -> None:
    """Shapes for the kernel that narrows, the one that widens, and the two for everything else."""
    for seed, (inputs, outputs, size) in enumerate(((40, 24, 3), (40, 96, 2), (24, 40, 3), (5, 90, 2), (33, 200, 1))):
        draw = Draw(seed, 2, 5)
        x, w, residual = draw.image(size, inputs), draw(outputs, inputs), draw.image(size, inputs)
        delta, units = (
            draw.delta(size, outputs),
            tuple(Raw(draw.image(size, inputs), draw.normal(inputs)) for _ in range(2)),
        )
        lazy = Raw(x, draw.normal(inputs))
        cases = (
            (Source(*lazy, (lazy,), relu=True), None),
            (Source(x, None, units, relu=False), residual),
            (Source(x, None, units[:1], relu=True), residual),
            (Source(x, None, (), relu=False), None),
        )
        for source, around in cases:
            made = []
            for ops in EITHER:
                into = draw(outputs, inputs, 1, 1) * torch.nan
                *found, left = ops.pointwise_backward(delta, w, source, draw.rows, into, around, wanted=True)
                made.append((*found, added(ops, left, into)))
            backward_agrees(draw, made, source.made_by, (inputs, outputs, source.relu))


def depthwise() -> None:
    for seed, (channels, size, stride) in enumerate(
        ((3, 5, 1), (20, 4, 2), (64, 3, 1), (16, 5, 2), (64, 4, 2), (1, 1, 1))
    ):
        draw = Draw(seed, 2, 7)
        unit, w = Raw(draw.image(size, channels), draw.normal(channels)), draw(channels, 9)
        made = [ops.depthwise(unit.y, w, unit.normal, stride, draw.rows) for ops in EITHER]
        forward_agrees(draw, made, (channels, size, stride))
        delta = draw.delta(0, channels, like=made[0][0])
        slopes = []
        for ops in EITHER:
            into = draw(channels, 1, 3, 3) * torch.nan
            *found, left = ops.depthwise_backward(delta, w, unit, stride, draw.rows, into)
            slopes.append((*found, added(ops, left, into)))
        backward_agrees(draw, slopes, (unit,), (channels, size, stride))


def around() -> None:
    """Patches, block outputs, the global average."""
    for seed, (channels, size) in enumerate(((5, 3), (70, 2))):
        draw = Draw(seed, 2, 5)
        unit, other = (Raw(draw.image(size, channels), draw.normal(channels)) for _ in range(2))
        for relu, shortcut in ((True, None), (False, None), (False, other.y), (False, other)):
            made = [ops.joined(unit, relu, shortcut, draw.rows) for ops in EITHER]
            same(*(draw.only_real(x) for x in made), what=("joined", relu))
        same(*(ops.pooled(unit, draw.rows) for ops in EITHER), what="pooled")
        d_features = draw(draw.batch, channels)
        made = [(*ops.pooled_backward(d_features, unit, draw.rows), d_features) for ops in EITHER]
        backward_agrees(draw, made, (unit,), "pooled")
        images = draw(draw.batch, channels, size, size + 2)
        columns = -(-9 * channels // 16) * 16
        same(*(draw.only_real(ops.patches(images, columns, draw.rows)) for ops in EITHER), what="patches")


def rounded() -> None:
    """In 16 bits BatchNorm normalises what was written, so its statistics must be those of the rounded outputs: where a
    channel's mean is large, rounding moves it by more than its deviation. (The interpreter cannot multiply bfloat16.)
    """
    ops = Fused(torch.float16, tf32=False)
    draw = Draw(0, 2, 5)
    raw = (draw(draw.batch, 3, 4, 16) / 10 + 100).half()
    normal = torch.ones(draw.clients, 4, 16)
    for y, found in (
        ops.pointwise(raw, (draw(24, 16).abs() + 1).half(), None, draw.rows),
        ops.pointwise(raw, (draw(24, 16).abs() + 1).half(), normal, draw.rows),
        ops.depthwise(raw, (draw(16, 9).abs() + 1).half(), normal, 1, draw.rows),
        ops.depthwise(raw, (draw(16, 9).abs() + 1).half(), normal, 2, draw.rows),
    ):
        zero = torch.zeros(draw.clients, y.shape[-1])
        made = ops.normalise(found, draw.rows, zero + 1, zero, None, 1e-5, 0.1)
        for k, samples in enumerate(draw.rows.tolist()):
            written = y[k, :samples].float()
            same(made[k, 2], written.mean((0, 1, 2)), "mean")
            same(made[k, 3], (written.var((0, 1, 2), correction=0) + 1e-5).rsqrt(), "inverse deviation")


def network() -> None:
    for rows, size, channels in (([2, 3], 5, 1), ([5], 6, 3)):
        found = errors(cohort(small_network(channels), rows, batch=5, size=size, dtype=torch.float32), torch.float32)
        assert max(found.values()) < TOLERANCE, found


def step() -> None:
    """Every operation of a training step, with the numbers it has there."""
    for rows, size, channels in (([2, 3], 5, 1), ([5], 6, 3)):
        here = cohort(small_network(channels), rows, batch=5, size=size, dtype=torch.float32)
        found = Checked(FUSED).train(here)
        seen = {what.split(":")[0].split()[0] for what in found}
        assert seen == {name for name in vars(Operations) if name[0] != "_"} - {"rehearse", "summed"}, seen
        assert max(found.values()) < TOLERANCE, max(found.items(), key=lambda each: each[1])


def same_bits() -> None:
    here = cohort(small_network(), [3, 1], batch=3, size=4, dtype=torch.float32)
    bits: list[dict[str, Tensor]] = []
    for _ in range(2):
        here.train(torch.float32)
        bits.append({name: g.clone() for name, g in here.into.items()})
    assert all(torch.equal(bits[0][name], bits[1][name]) for name in bits[0])


def separate_tensors() -> None:
    """Parameters that are no views of one matrix."""
    one = cohort(small_network(), [3, 2], batch=3, size=4, dtype=torch.float32)
    one.params = {name: p.clone() for name, p in one.params.items()}
    one.into = {name: torch.full_like(p, torch.nan) for name, p in one.params.items()}
    found = errors(one, torch.float32)
    assert max(found.values()) < TOLERANCE, found


def batch_norm() -> None:
    """Against PyTorch's in float64 over the real samples alone; padding has no gradient."""
    shapes = (((5, 7, 3, 4), None), ((6, 40, 5, 5), 4), ((9, 33), None), ((8, 5), 3), ((70, 3, 6, 6), 69))
    for seed, (shape, real) in enumerate(shapes):
        random = torch.Generator().manual_seed(seed)
        channels, count = shape[1], shape[0] if real is None else real
        x, slope = (torch.randn(shape, generator=random) + 2 for _ in range(2))
        if len(shape) == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        slope[count:] = 0  # nobody asks for padding's outputs
        tensors = [torch.rand(channels, generator=random) + 0.5 for _ in range(4)]
        found = []
        for dtype in (torch.float32, torch.float64):
            leaves = [t.to(dtype, copy=True).requires_grad_() for t in (x, *tensors[:2])]
            running = tensors[2].to(dtype, copy=True), tensors[3].to(dtype, copy=True)
            if dtype == torch.float32:
                limit = None if real is None else torch.tensor(real)
                out = kernels.batch_norm(*leaves, running, limit, 1e-5, 0.1)
                assert out is not None
                assert out.stride() == x.stride()
                assert out.isfinite().all()
            else:
                out = functional.batch_norm(leaves[0][:count], *running, *leaves[1:], True, 0.1, 1e-5)
            slopes = torch.autograd.grad(out, leaves, slope[: len(out)].to(dtype))
            assert not slopes[0][count:].any()
            found.append([part.detach() for part in (out[:count], *running, slopes[0][:count], *slopes[1:])])
        for one, other in zip(*found, strict=True):
            same(one, other, shape)
    gamma, beta = torch.ones(3), torch.zeros(3)
    for x in (torch.ones(4, 3, 2, 2), torch.ones(4, 3).double(), torch.ones(4, 3, 2)):
        assert kernels.batch_norm(x, gamma, beta, None, None, 1e-5, 0.1) is None, "PyTorch's own are for these"


def folded() -> None:
    module = small_network().eval()
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            if tensor.dim() == 1:
                tensor.uniform_(0.5, 1.5, generator=torch.Generator().manual_seed(1))
    x = torch.randn(5, 3, 7, 7, generator=torch.Generator().manual_seed(2))
    fast = kernels.folded(module, {**dict(module.named_parameters()), **dict(module.named_buffers())}, torch.float32)
    assert fast is not None
    same(fast(x)[0], module(x).detach(), "folded")


CHECKS: tuple[Callable[[], None], ...] = (
    pointwise, pointwise_backward, depthwise, around, rounded, network, step, same_bits, separate_tensors, folded,
    batch_norm, objectives.terms, objectives.shapes, objectives.extremes, objectives.padding, objectives.not_numbers,
    objectives.coverage, objectives.many_classes, objectives.gathering, objectives.chains,
    objectives.training, augmented.operations,
)  # fmt: skip


def chosen(names: list[str]) -> Iterator[Callable[[], None]]:
    yield from (check for check in CHECKS if check.__name__ in names)


if __name__ == "__main__":
    assert kernels.available(torch.device("cpu")), "the interpreter is off"
    torch.use_deterministic_algorithms(True)  # among others, memory that nobody has written holds no numbers
    for check in chosen(sys.argv[1:]):
        check()
        print(check.__name__, "agrees")
