"""A step that is run many times: on CUDA captured once as a graph and replayed, elsewhere simply called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import torch

SELDOM = 4
MOST = 48
T = TypeVar("T")


def new_stream(device: torch.device, *, urgent: bool) -> torch.cuda.Stream | None:
    """A stream to capture on: the default one cannot be captured. None where there are no streams.

    urgent: its work goes first wherever the device has to choose, replays of what was captured on it included.
    """
    if device.type != "cuda":
        return None
    return torch.cuda.Stream(device, priority=-1 if urgent else 0)  # type: ignore[no-untyped-call]


@contextmanager
def aside(stream: torch.cuda.Stream | None) -> Iterator[None]:
    """Work on this stream, after everything the current one has been given and before what it is given next."""
    if stream is None:
        yield
        return
    here = torch.cuda.current_stream(stream.device)
    stream.wait_stream(here)
    with torch.cuda.stream(stream):
        yield
    here.wait_stream(stream)


class Ahead(Generic[T]):
    """Work whose result is needed later, on a stream of its own, where it gets what the current one leaves of the
    device; elsewhere than on CUDA it is simply done at once.

    Its memory belongs to that stream. So work may begin only `after` the point at which the result before it was used.
    """

    def __init__(self, device: torch.device) -> None:
        self._stream = new_stream(device, urgent=False)
        self._made: T | None = None

    def start(self, work: Callable[[], T], after: torch.cuda.Event | None) -> None:
        """Begin the work once the current stream has passed `after`."""
        if self._stream is None or after is None:
            self._made = work()
            return
        self._stream.wait_event(after)
        with torch.cuda.stream(self._stream):
            self._made = work()

    def take(self) -> T:
        """The result: what the current stream is given from now on waits for it."""
        if self._stream is not None:
            torch.cuda.current_stream(self._stream.device).wait_stream(self._stream)
        made, self._made = self._made, None
        assert made is not None
        return made

    def here(self) -> torch.cuda.Event | None:
        """A mark on the current stream."""
        return torch.cuda.current_stream(self._stream.device).record_event() if self._stream is not None else None


class Replay:
    """Remembers captured steps by key. All run on one stream, one after another, and share their scratch memory.

    The first run of a key is an ordinary call: it warms up libraries and allocators, which capturing needs.
    """

    def __init__(self, device: torch.device) -> None:
        self.enabled = device.type == "cuda"
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph] = {}
        self._runs: Counter[Hashable] = Counter()
        self.forget()

    def forget(self) -> None:
        """The memory that graphs read has moved, or what they compute has changed."""
        self._graphs.clear()
        self._runs.clear()
        # A pool whose graphs are all gone is gone too.
        self._pool = torch.cuda.graph_pool_handle() if self.enabled else None

    def run(self, key: Hashable, step: Callable[[], None], left: int) -> None:
        """One step, with `left` more of this key to come at once. Capturing costs about as much as two calls, so it is
        done where more than that are to come, or for a key that keeps coming back."""
        graph = self._graphs.get(key)
        runs = self._runs[key]
        worthwhile = runs > 0 and (left > 2 or runs >= SELDOM) and len(self._graphs) < MOST
        if graph is None and self.enabled and worthwhile:
            graph = self._graphs[key] = self._captured(step)
        if graph is None:
            self._runs[key] += 1
            step()
        else:
            graph.replay()

    def _captured(self, step: Callable[[], None]) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        # Without torch.cuda.graph's collection of garbage: with dozens of captures it would take seconds.
        graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
        try:
            step()
        finally:
            graph.capture_end()
        return graph
