"""The floor: how fast this machine is at nothing but the matrix products of a chain of Linear layers, right now.

A busy host takes processor time away without a sign, so that samples per second of two moments cannot be compared; the
share of a floor measured beside them can. One process per core, one thread each, is the fastest way to multiply small
matrices, and what an ideal program would do.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from multiprocessing.connection import Connection


@dataclass(frozen=True)
class Floor:
    """A chain of Linear layers of these widths, trained with minibatches of this size."""

    widths: tuple[int, ...]
    batch_size: int
    teacher: bool
    """A second, frozen model is evaluated on every minibatch."""
    dtype: str = "float32"
    """Of the factors, by PyTorch's name for it."""

    @property
    def products(self) -> list[tuple[int, int, int]]:
        """(m, k, n) of every product of a step: forward, weight gradients, input gradients, the teacher's forward.

        The first layer needs no gradient of its input.
        """
        layers = list(pairwise(self.widths))
        forward = [(self.batch_size, a, b) for a, b in layers]
        weights = [(b, self.batch_size, a) for a, b in layers]
        inputs = [(self.batch_size, b, a) for a, b in layers[1:]]
        return forward + weights + inputs + (forward if self.teacher else [])

    @property
    def flops_per_sample(self) -> float:
        """2 m k n for every product, over the minibatch."""
        return sum(2 * m * k * n for m, k, n in self.products) / self.batch_size


@dataclass(frozen=True)
class FloorReading:
    """One measurement of the floor."""

    rate: float
    """Samples per second of all processes together."""
    processor_share: float
    """How much of their cores the processes got: below 1 where other programs wanted them too."""


class FloorMeter:
    """Worker processes that wait, and multiply when asked."""

    def __init__(self, floor: Floor, processes: int) -> None:
        self.floor = floor
        self._workers = []
        context = multiprocessing.get_context("spawn")
        for _ in range(processes):
            here, there = context.Pipe()
            worker = context.Process(target=_multiply_when_asked, args=(there, floor), daemon=True)
            worker.start()
            there.close()
            self._workers.append((worker, here))
        for _, pipe in self._workers:
            pipe.recv()  # PyTorch is loaded

    def measure(self, seconds: float) -> FloorReading:
        """Multiply in all processes at once."""
        for _, pipe in self._workers:
            pipe.send(seconds)
        rates, shares = zip(*(pipe.recv() for _, pipe in self._workers), strict=True)
        return FloorReading(sum(rates), sum(shares) / len(shares))

    def close(self) -> None:
        for worker, pipe in self._workers:
            pipe.close()
            worker.join(5)
            if worker.is_alive():
                worker.kill()
                worker.join()

    def __enter__(self) -> FloorMeter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _multiply_when_asked(pipe: Connection, floor: Floor) -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    step = gemm_step(floor.products, floor.dtype)
    pipe.send("ready")
    while True:
        try:
            seconds = pipe.recv()
        except EOFError:
            return
        pipe.send(rate(step, floor.batch_size, seconds))


def gemm_step(products: Sequence[tuple[int, int, int]], dtype: str = "float32") -> Callable[[], None]:
    """A function that multiplies matrices of these shapes and this type, each product in the fastest way there is."""
    import torch

    torch.set_num_threads(1)
    fastest = [min(ways(m, k, n, dtype), key=_seconds) for m, k, n in products]

    def step() -> None:
        for multiply in fastest:
            multiply()

    return step


def ways(m: int, k: int, n: int, dtype: str) -> list[Callable[[], object]]:
    """Functions that compute `[m, k]` times `[k, n]`: by PyTorch's ordinary library into memory that is there already,
    and by oneDNN, either factor first, into new memory, since it takes none that is there."""
    import torch

    from ..lift.products import has_onednn

    kind = getattr(torch, dtype)
    left, right, into = (torch.ones(shape, dtype=kind) for shape in ((m, k), (k, n), (m, n)))
    found: list[Callable[[], object]] = [lambda: torch.mm(left, right, out=into)]
    if kind in (torch.float32, torch.bfloat16) and has_onednn():
        turned = right.t().contiguous()
        for first, second in ((left, turned), (turned, left)):
            found.append(partial(torch.ops.mkldnn._linear_pointwise.default, first, second, None, "none", [], ""))
    return found


def _seconds(multiply: Callable[[], object]) -> float:
    """For a few calls, the best of some."""
    taken = []
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(10):
            multiply()
        taken.append(time.perf_counter() - began)
    return min(taken)


def rate(step: Callable[[], None], samples: int, seconds: float) -> tuple[float, float]:
    """Samples per second of a step that is repeated for about `seconds`, after one repetition that does not count; and
    the share of that time in which the process had a core."""
    step()
    began, computed, steps = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - began < seconds:
        for _ in range(10):
            step()
        steps += 10
    taken = time.perf_counter() - began
    return samples * steps / taken, (time.process_time() - computed) / taken
