"""How kernels are launched, and compiled beforehand.

A network needs more than a hundred of them, each half a second of compilation. A rehearsal calls the network once with
kernels that are not launched but only handed to the compiler, all processor cores at work.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import torch
import triton

_rehearsing: ContextVar[bool] = ContextVar("rehearsing", default=False)


class Kernel:
    """A jitted function, launched as `kernel[grid](...)`."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., Any]:
        if not _rehearsing.get():
            return self.function[grid]  # type: ignore[no-any-return]
        return lambda *args, **options: self.function.run(*args, grid=grid, warmup=True, **options)


def kernel(unaligned: tuple[str, ...] = (), plain: tuple[str, ...] = ()) -> Callable[[Callable[..., Any]], Kernel]:
    """Compiles a function as a kernel. unaligned: pointers that may point anywhere; plain: whole numbers whose value
    must not lead to a compilation of its own."""

    def wrapped(function: Callable[..., Any]) -> Kernel:
        return Kernel(triton.jit(function, do_not_specialize=plain, do_not_specialize_on_alignment=unaligned))

    return wrapped


def rehearse(run: Callable[[], object]) -> None:
    """Compile what `run` would launch. Nothing is computed: what it returns is meaningless."""
    if os.environ.get("TRITON_INTERPRET") == "1" or torch.cuda.is_current_stream_capturing():
        return
    try:
        from triton.runtime._async_compile import AsyncCompileMode
    except ImportError:  # an older Triton compiles at the first launch
        return
    token = _rehearsing.set(True)
    try:
        with ThreadPoolExecutor(os.cpu_count()) as pool, AsyncCompileMode(pool):
            run()
    finally:
        _rehearsing.reset(token)
