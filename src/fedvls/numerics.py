"""Device, dtype and the settings that make arithmetic repeatable, for the duration of a run."""

from __future__ import annotations

import logging
import platform
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

import torch
from torch import Tensor

from .errors import UsageError

log = logging.getLogger("fedvls")

# The type that weights, averages and losses have. "tf32" and "bf16" only change how products are computed.
DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "tf32": torch.float32,
    "bf16": torch.float32,
}

_half: ContextVar[torch.dtype | None] = ContextVar("half", default=None)


def half_precision() -> torch.dtype | None:
    """The short type in which the run computes forward and backward passes, if it does."""
    return _half.get()


def full_precision(values: Tensor) -> Tensor:
    """Losses run in float32 at least: log(1e-9) and sums of exponentials do not fit half precision."""
    return values if values.dtype == torch.float64 else values.float()


def forward_precision(device: torch.device) -> AbstractContextManager[object]:
    """Around a model's forward pass: products in the run's short type. Losses are computed outside of it."""
    half = _half.get()
    if half is None:
        return nullcontext()
    # Not cached: a captured graph must convert the weights anew in every replay.
    return torch.autocast(device.type, dtype=half, cache_enabled=False)


def resolve_device(name: str, dtype: str = "float32") -> torch.device:
    """ "auto" is the first CUDA device where there is one, else the CPU."""
    device = _device(name)
    if dtype == "tf32" and device.type != "cuda":
        raise UsageError("dtype = 'tf32' exists on CUDA devices only; on a CPU use float32")
    if dtype == "bf16" and device.type == "cpu" and not multiplies_short_numbers():
        log.warning("this processor has no instructions for bfloat16: dtype = 'bf16' is slower than float32 here")
    return device


def multiplies_short_numbers() -> bool:
    """Whether the processor has instructions for products of bfloat16; True where PyTorch cannot tell."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return True
    known = [getattr(torch.cpu, f"_is_{name}_supported", None) for name in ("avx512_bf16", "amx_tile")]
    return None in known or any(has() for has in known if has is not None)


def _device(name: str) -> torch.device:
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
def repeatable(device: torch.device, threads: int, dtype: str = "float32") -> Iterator[None]:
    """Same bits every time on one device: a fixed number of threads, no autotuned kernels, and no precision below the
    one asked for. The caller's settings come back afterwards.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    token = _half.set(torch.bfloat16 if dtype == "bf16" else None)
    short = dtype in ("tf32", "bf16")
    try:
        if device.type == "cuda":
            with (
                torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=short),
                _matmul(allow_tf32=short),
            ):
                yield
        else:
            yield
    finally:
        _half.reset(token)
        torch.set_num_threads(before)


@contextmanager
def _matmul(allow_tf32: bool) -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allow_tf32
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
