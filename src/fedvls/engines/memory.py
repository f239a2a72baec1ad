"""A GPU that several runs share: what of its memory a run may take, what is said when there is none left, and an end
that harms nobody else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch

from ..errors import RunError

GIB = 1 << 30


def free_memory(device: torch.device) -> int:
    """Bytes that may be taken: two thirds of what is free, the allocator's own reserve included; where several runs
    share the GPU, at most nine tenths of this one's share, because all of them find the same memory free."""
    free, total = torch.cuda.mem_get_info(device)
    reserve = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return min((free + reserve) * 2 // 3, total // runs_at_once() * 9 // 10)


def runs_at_once() -> int:
    """How many runs share the GPU: what `FEDVLS_RUNS` says, 1 if it says nothing."""
    told = os.environ.get("FEDVLS_RUNS", "")
    return int(told) if told.isdecimal() and int(told) > 0 else 1


@contextmanager
def told_when_full(device: torch.device) -> Iterator[None]:
    """A full GPU is no defect of the program: one line that says who has the memory and what helps."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        free, total = torch.cuda.mem_get_info(device)
        own = torch.cuda.memory_reserved(device)
        others = max(0, total - free - own)
        raise RunError(
            f"the GPU's memory is full: of {total / GIB:.0f} GiB this run has {own / GIB:.0f} and other programs "
            f"{others / GIB:.0f}; set FEDVLS_RUNS to how many runs share the GPU (now {runs_at_once()}), use fewer "
            "--workers, or a smaller batch_size, and run it again: what has a folder goes on from its checkpoint"
        ) from error


def settle(device: torch.device) -> None:
    """Wait until the GPU has done what it was given. Under NVIDIA's multi-process service a program that ends before
    takes the others with it: they all fail with an illegal access to memory.

    A failure shows again here, and has been told by whoever met it first.
    """
    if device.type == "cuda":
        with suppress(RuntimeError):
            torch.cuda.synchronize(device)


def give_back() -> None:
    """PyTorch keeps a GPU's freed memory for itself. Others may need it, and so may the next run in this process: while
    a step is being captured, the memory of captured steps that are gone cannot be had."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        with suppress(RuntimeError):
            torch.cuda.empty_cache()


def is_lost() -> bool:
    """Whether the GPU has failed this process: its errors stay until the process ends."""
    try:
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False
