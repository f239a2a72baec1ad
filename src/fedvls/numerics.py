"""Device, dtype and the settings that make arithmetic repeatable, for the duration of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from .errors import UsageError

DTYPES = {"float32": torch.float32, "float64": torch.float64}


def resolve_device(name: str) -> torch.device:
    """ "auto" is the first CUDA device where there is one, else the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UsageError(f"device = {name!r} is not one of auto, cpu, cuda, cuda:0, ...") from None
    if device.type not in ("cpu", "cuda"):
        raise UsageError(f"device = {name!r} is not supported; use auto, cpu or cuda")
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise UsageError(f"device = {name!r}, but PyTorch finds no CUDA device here; use --device cpu")
        index = torch.cuda.current_device() if device.index is None else device.index
        if index >= torch.cuda.device_count():
            raise UsageError(f"device = {name!r}, but there are {torch.cuda.device_count()} CUDA devices")
        return torch.device("cuda", index)
    return device


@contextmanager
def repeatable(device: torch.device, threads: int) -> Iterator[None]:
    """Same bits every time on one device: a fixed number of threads, no autotuned or reduced-precision kernels.

    The caller's settings come back afterwards.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        if device.type == "cuda":
            with (
                torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False),
                _plain_matmul(),
            ):
                yield
        else:
            yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _plain_matmul() -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
