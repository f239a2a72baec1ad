"""How a worker process gets memory from the system."""

from __future__ import annotations

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
LARGE, LARGEST_OF_OLD_GLIBC = 1 << 30, 1 << 25


def keep_freed_memory() -> bool:
    """Let this process reuse the memory of freed tensors instead of handing it back; says whether that was possible.

    By default glibc maps every large block anew and unmaps it when it is freed, so that each tensor of each minibatch
    costs page faults and zeroing: nearly all of the system time of convolution nets. Kept blocks bound the memory by
    its peak, as before, but it stays at the peak: right for a process that only trains, not for a user's own.
    Elsewhere than on glibc nothing happens.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # musl has none
        return False
    mapped = any(mallopt(M_MMAP_THRESHOLD, size) for size in (LARGE, LARGEST_OF_OLD_GLIBC))
    return bool(mapped and mallopt(M_TRIM_THRESHOLD, LARGE))
