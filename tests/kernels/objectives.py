"""Objectives written out, as a kernel and in plain operations, against autograd of the terms themselves: on random
minibatches and at the edges."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import torch
from support import assert_close, small_data, small_mlp
from torch import Tensor

import fedvls
from fedvls import kernels, losses
from fedvls.engines import parallel
from fedvls.engines.gathering import gathered
from fedvls.engines.objective import SplitObjective
from fedvls.kernels.fused_objective import MOST_CLASSES, FusedObjective
from fedvls.lift.chain import Chain
from fedvls.losses import ClientStatistics, LossInputs, Objective, Term
from fedvls.losses.term import as_objective
from fedvls.method import METHODS
from fedvls.models.chain import Layer

CPU = torch.device("cpu")
BOUND = {torch.float64: 1e-10, torch.float32: 2e-5}

OBJECTIVES: dict[str, Objective | Term] = {
    name: fedvls.get_method(name).objective
    for name in ("fedavg", "fedlc", "fedrs", "fedkd", "fedekd", "fedntd", "fedlmd", "fedvls", "fedvls-soft")
} | {
    "fedrs, soft": losses.restricted_cross_entropy(0.3, "soft"),
    "fedvls without floor": losses.calibrated_cross_entropy(0.0) + 0.5 * losses.vacant_distillation(2.5),
    "fedvls, printed": losses.cross_entropy() + 0.7 * losses.logit_suppression("printed"),
    "fedvls, bounded": losses.cross_entropy() + 0.7 * losses.logit_suppression("bounded"),
    "suppression alone": losses.logit_suppression("bounded"),
    "everything trusted": losses.softened_cross_entropy(0.8, 0.1, "average", trusted=True)
    + 0.3 * losses.vacant_distillation(1.5, trusted=True)
    + 1.5 * losses.logit_suppression("released"),
    "masked at temperature 3": 2.0 * losses.cross_entropy() + 0.4 * losses.label_masked_distillation(3.0),
}
FEW = ("fedavg", "fedvls", "everything trusted", "masked at temperature 3")


@dataclass(frozen=True)
class Batch:
    """K clients' minibatches."""

    inputs: LossInputs

    @property
    def logits(self) -> Tensor:
        return self.inputs.logits

    def to(self, device: str) -> Batch:
        given = self.inputs
        return Batch(
            replace(
                given,
                logits=given.logits.to(device),
                labels=given.labels.to(device),
                sample_mask=given.sample_mask.to(device),
                client=ClientStatistics(given.client.counts.to(device)),
                teacher_logits=given.given("teacher_logits").to(device),
            )
        )

    def autograd(self, objective: Objective) -> tuple[Tensor, Tensor]:
        """Value and gradient in float64."""
        given = self.inputs
        short = given.logits.dtype == torch.float32
        exact = replace(
            given,
            logits=given.logits.double().detach().requires_grad_(),
            client=ClientStatistics(given.client.counts.double()) if short else given.client,
            teacher_logits=given.given("teacher_logits").double(),
        )
        loss = objective(exact)
        (slope,) = torch.autograd.grad(loss, exact.logits, torch.ones_like(loss))
        return loss.detach(), slope


def drawn(clients: int, batch: int, classes: int, dtype: torch.dtype, seed: int = 0, spread: float = 3.0) -> Batch:
    """The first client has every class, the second one class, the third all but one, the others some; every client but
    the first has padding, the last one nothing else if there are more than four."""
    random = torch.Generator().manual_seed(seed)
    counts = torch.randint(1, 50, (clients, classes), generator=random)
    keep = torch.rand(clients, classes, generator=random) < 0.6
    keep[0] = True
    if clients > 1:
        keep[1] = torch.arange(classes) == classes // 2
    if clients > 2:
        keep[2] = torch.arange(classes) != classes // 2
    keep[:, -1] |= ~keep.any(1)
    counts = (counts * keep).to(dtype)
    labels = torch.multinomial(counts.float(), batch, replacement=True, generator=random)
    mask = torch.rand(clients, batch, generator=random) < 0.8
    mask[0] = True
    mask[:, 0] = True
    if clients > 4:
        mask[4] = False
    logits, teacher = (spread * torch.randn(clients, batch, classes, generator=random, dtype=dtype) for _ in range(2))
    return Batch(LossInputs(logits, labels, mask, ClientStatistics(counts), teacher))


def assert_agrees(batch: Batch, objective: Objective | Term, what: object) -> None:
    terms = as_objective(objective)
    kernel = kernels.objective(terms.terms, batch.logits.device)
    assert kernel is not None, what
    for mine, theirs in zip(kernel(batch.inputs, batch.logits), batch.autograd(terms), strict=True):
        assert mine.dtype == batch.logits.dtype
        # Where nothing is to be learnt the slope is 0 but for rounding: no relative error of that.
        error = float((mine.double() - theirs).norm() / theirs.norm().clamp(min=0.1))
        assert error < BOUND[batch.logits.dtype], (what, error)


def terms() -> None:
    """Every objective, in both types; rows that fill a tile, less than one, and two and a half."""
    for dtype in BOUND:
        for name, objective in OBJECTIVES.items():
            assert_agrees(drawn(6, 24, 10, dtype), objective, (name, dtype))
        for name in FEW:
            assert_agrees(drawn(2, 160, 5, dtype), OBJECTIVES[name], (name, dtype, "tiles"))


def shapes() -> None:
    """Any number of clients, samples and classes: one of each, a batch of one, the most classes there may be."""
    for dtype in BOUND:
        for shape in ((1, 1, 2), (3, 1, 10), (2, 64, 16), (5, 9, 17), (2, 40, 100), (3, 20, 256), (1, 3, 1)):
            for name in FEW:
                assert_agrees(drawn(*shape, dtype, seed=shape[1]), OBJECTIVES[name], (name, shape, dtype))


def extremes() -> None:
    """Logits of hundreds, one label for the whole batch, statistics in another type, no class left to hear the teacher
    about, no leading axis, views."""
    for name in (*FEW, "fedvls, printed", "fedvls, bounded"):
        objective = OBJECTIVES[name]
        assert_agrees(drawn(4, 12, 10, torch.float64, spread=300.0), objective, (name, "large"))
        batch = drawn(3, 12, 10, torch.float64)
        one = replace(batch.inputs, labels=batch.inputs.labels[:, :1].expand(-1, 12))
        assert_agrees(Batch(one), objective, (name, "one label"))
        short = replace(batch.inputs, client=ClientStatistics(2 ** torch.arange(30.0).view(3, 10)))
        assert_agrees(Batch(short), objective, (name, "counts"))
        rare = torch.full((3, 10), 50.0, dtype=torch.float64)
        rare[:, 0] = 1
        lone = replace(batch.inputs, labels=torch.zeros_like(batch.inputs.labels), client=ClientStatistics(rare))
        assert_agrees(Batch(lone), objective, (name, "the label is the only rare class"))
        alone = replace(
            batch.inputs,
            logits=batch.logits[0],
            labels=batch.inputs.labels[0],
            sample_mask=batch.inputs.sample_mask[0],
            client=ClientStatistics(batch.inputs.client.counts[0]),
            teacher_logits=batch.inputs.given("teacher_logits")[0],
        )
        assert_agrees(Batch(alone), objective, (name, "alone"))
        wide = drawn(3, 12, 20, torch.float64)
        view = replace(batch.inputs, logits=wide.logits[..., ::2], labels=batch.inputs.labels.t().contiguous().t())
        assert_agrees(Batch(view), objective, (name, "views"))


def padding() -> None:
    """What padding holds, not a number included, is not read; its slope is 0; the same bits twice."""
    for name in FEW:
        kernel = kernels.objective(as_objective(OBJECTIVES[name]).terms, CPU)
        assert kernel is not None
        batch = drawn(4, 30, 10, torch.float32)
        unreal = ~batch.inputs.sample_mask.unsqueeze(-1)
        other = replace(
            batch.inputs,
            logits=batch.logits.masked_fill(unreal, torch.nan),
            teacher_logits=batch.inputs.given("teacher_logits").masked_fill(unreal, torch.inf),
        )
        first, second = kernel(batch.inputs, batch.logits), kernel(other, other.logits)
        assert all(torch.equal(mine, theirs) for mine, theirs in zip(first, second, strict=True)), name
        assert int(first[1].masked_select(unreal).count_nonzero()) == 0


def not_numbers() -> None:
    """A logit that is not a number is heard of in the loss and in the slope, as with autograd."""
    batch = drawn(3, 8, 10, torch.float64)
    batch.logits[0, 2, 3] = torch.nan
    for name in FEW:
        kernel = kernels.objective(as_objective(OBJECTIVES[name]).terms, CPU)
        assert kernel is not None
        loss, slope = kernel(batch.inputs, batch.logits)
        assert loss.isnan().tolist() == [True, False, False], name
        assert slope[0, 2].isnan().any()
        assert not slope[1:].isnan().any()


def coverage() -> None:
    """Whose objective is written out, and what goes autograd's way: two terms of a kind, a term over features, one's
    own."""
    names = {entry.name for entry in METHODS if entry.build.__module__.startswith("fedvls.")}
    without = {name for name in names if SplitObjective(fedvls.get_method(name).objective, CPU).written_out is None}
    assert without == {"feddkd", "fedmr", "fpl", "fpl+fedvls", "moon"}, without
    twice = losses.cross_entropy() + losses.calibrated_cross_entropy()
    own = losses.term("own")(lambda inputs: inputs.over_batch(inputs.logits.mean(-1)))
    for objective in (twice, losses.cross_entropy() + own, losses.margin_cross_entropy(0.5, "left-out")):
        assert SplitObjective(objective, CPU).written_out is None


def many_classes() -> None:
    """More than the kernel takes go autograd's way."""
    batch, objective = drawn(2, 3, MOST_CLASSES + 1, torch.float64), OBJECTIVES["fedvls"]
    found = SplitObjective(objective, CPU).slopes(batch.inputs, batch.logits, None)
    for mine, theirs in zip((found.loss, found.logits), batch.autograd(as_objective(objective)), strict=True):
        assert torch.equal(mine, theirs)


def gathering() -> None:
    """Minibatches in one launch are those of PyTorch's operations to the bit: some clients, less than the full width,
    the last step; inputs of any shape and type; with and without a teacher."""
    random = torch.Generator().manual_seed(0)
    samples, steps, clients, wide = 50, 3, 5, 8
    held = {
        "y": torch.randint(0, 10, (samples,), generator=random),
        "teacher_logits": torch.randn(samples, 10, generator=random, dtype=torch.float64),
        "rows": torch.randint(0, samples, (steps, clients, wide), generator=random),
        "lengths": torch.randint(0, wide, (steps, clients), generator=random, dtype=torch.int32),
        "positions": torch.arange(wide),
    }
    inputs = (torch.randn(samples, 3, 20, 21), torch.randn(samples, 7, dtype=torch.float64), held["y"].view(-1, 1))
    there = kernels.available
    for x, own, width in itertools.product(inputs, (slice(0, 5), slice(2, 4)), (8, 3)):
        for names in (("x", "y"), ("x", "y", "teacher_logits")):
            given = (held | {"x": x}, names, torch.tensor([steps - 1]), own, width)
            mine = gathered(*given)
            kernels.available = lambda device: False
            theirs = gathered(*given)
            kernels.available = there
            assert mine.keys() == theirs.keys() == {*names, "mask", "lengths"}
            assert all(torch.equal(mine[name], theirs[name]) for name in theirs)
            assert all(mine[name].dtype == theirs[name].dtype for name in theirs)


def chains() -> None:
    """Linear layers with their biases and ReLUs: what PyTorch's operations give, but for rounding; also where clients
    lie in one matrix, layers have no bias, samples are texts, and features have a slope of their own."""
    random = torch.Generator().manual_seed(0)
    plain = [Layer("a", "b", True), Layer("c", None, True), Layer("d", "e", False)]
    sizes = {"a": (70, 9), "b": (70,), "c": (33, 70), "d": (5, 33), "e": (5,), "words": (20, 9)}
    matrix = torch.randn(3, 5_000, generator=random, dtype=torch.float64)
    there = kernels.available
    for embedding, batch in ((None, 7), (None, 130), ("words", 6)):
        params, end = {}, 1
        for name, size in sizes.items():
            params[name] = matrix[:, end : end + math.prod(size)].unflatten(1, size)
            end += math.prod(size)
        x = torch.randn(3, batch, 9, generator=random, dtype=torch.float64)
        if embedding:
            x = torch.randint(0, 20, (3, batch, 4), generator=random)
        chain, found = Chain(plain, embedding), []
        for available in (there, lambda device: False):
            kernels.available = available
            into = {name: torch.full_like(p, torch.nan) for name, p in params.items() if embedding or name != "words"}
            forward = chain.forward(params, {}, x, None, features=True, statistics=True)
            chain.backward(forward, forward.logits.sin(), forward.features.cos(), into)
            found.append([forward.logits, forward.features, *into.values()])
        kernels.available = there
        for mine, theirs in zip(*found, strict=True):
            assert float((mine - theirs).norm() / theirs.norm()) < 1e-12, (embedding, batch)


def training() -> None:
    """Two rounds of stacks end with the sequential engine's weights; the kernel computed what it can."""
    parallel.cores = lambda: 1  # in this process, to see the launches
    launched = []
    original = FusedObjective.__call__
    FusedObjective.__call__ = lambda self, *given: launched.append(1) or original(self, *given)
    for name, fused in (("fedvls", True), ("fedprox", True), ("fedvls+fedsam", True), ("moon", False)):
        found = []
        for engine in ("sequential", "stacked"):
            launched.clear()
            fed = fedvls.Federation(
                small_data(),
                partition=fedvls.dirichlet(beta=0.5, min_size=5),
                clients=4,
                model=small_mlp(),
                engine=engine,
                dtype="float64",
                device="cpu",
            )
            found.append(fed.run(name, 2, 1, batch_size=10, out=None, local_every=100).weights.tensors())
            assert bool(launched) == (fused and engine == "stacked"), name
        assert_close(found[1], found[0], 1e-9)
