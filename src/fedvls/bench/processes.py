"""A program and all processes it starts: their memory, and their end."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

PROC = Path("/proc")


def tree(root: int) -> list[int]:
    """The process and all its descendants; the process alone where the system does not tell."""
    children: dict[int, list[int]] = {}
    for entry in PROC.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):  # it may end while we look
            # the command's name is in parentheses and may hold anything
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.parent.name))
    found = [root]
    for process in found:
        found += children.get(process, [])
    return found


def memory(root: int) -> int | None:
    """Bytes in memory of the whole tree, with shared pages counted once (proportional set size); None if unknown."""
    total = 0
    for process in tree(root):
        with contextlib.suppress(OSError, ValueError, StopIteration):
            lines = (PROC / str(process) / "smaps_rollup").read_text().splitlines()
            total += 1024 * int(next(line for line in lines if line.startswith("Pss:")).split()[1])
    return total or None


def processor_seconds(root: int) -> float:
    """Processor time that the living processes of the tree have used; 0 where the system does not tell."""
    ticks = 0
    for process in tree(root):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = (PROC / str(process) / "stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK") if ticks else 0.0


def end(root: int) -> None:
    """Kill the whole tree."""
    for process in reversed(tree(root)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)
