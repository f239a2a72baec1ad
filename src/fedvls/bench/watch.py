"""Starts a program of the benchmark, listens to what it reports, and measures floor and memory beside it."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from . import processes
from .floor import FloorReading
from .rows import Measurement

SAMPLED_EVERY = 1.0
"""Seconds between two looks at a program's memory."""

Event = dict[str, Any]


class NotRun(Exception):
    """The program cannot do this work, or failed; the message is one line for the table."""


def measure(
    command: Sequence[str],
    *,
    floor: Callable[[], FloorReading] | None = None,
    on_event: Callable[[Event], None] = lambda event: None,
    limit: float = 3600,
    environment: Mapping[str, str] | None = None,
) -> Measurement:
    """Run the program to its end and say what it did.

    floor: measured while the program pauses, before and after its timed rounds; limit: seconds without a word after
    which it is given up.
    """
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        program = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        try:
            return _listen(program, log, floor, on_event, limit)
        finally:
            processes.end(program.pid)
            program.wait()
            for pipe in (program.stdin, program.stdout):
                assert pipe is not None
                pipe.close()


def _listen(
    program: subprocess.Popen[str],
    log: IO[str],
    floor: Callable[[], FloorReading] | None,
    on_event: Callable[[Event], None],
    limit: float,
) -> Measurement:
    assert program.stdin is not None
    lines: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_read, args=(program, lines), daemon=True).start()
    events: list[Event] = []
    floors: list[FloorReading] = []
    peak, busy, heard = 0, 0.0, time.monotonic()
    while True:
        try:
            line = lines.get(timeout=SAMPLED_EVERY)
        except queue.Empty:
            peak = max(peak, processes.memory(program.pid) or 0)
            if time.monotonic() - heard > limit:
                raise NotRun(f"no word for {limit:.0f} s") from None
            continue
        if line is None:
            raise NotRun(_failure(program.wait(), log))
        event = _event(line)
        heard = time.monotonic()
        events.append(event)
        on_event(event)
        if event["event"] == "refused":
            raise NotRun(event["reason"])
        if event["event"] == "done":
            return _measurement(events, peak, busy, floors)
        if event["event"] == "pause":
            peak = max(peak, processes.memory(program.pid) or 0)
            if floor is not None:
                began, used = time.monotonic(), processes.processor_seconds(program.pid)
                floors.append(floor())
                used = processes.processor_seconds(program.pid) - used
                busy = max(busy, used / (time.monotonic() - began))
            program.stdin.write("go\n")
            program.stdin.flush()


def _read(program: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    assert program.stdout is not None
    for line in program.stdout:
        lines.put(line)
    lines.put(None)


def _event(line: str) -> Event:
    try:
        event = json.loads(line)
    except ValueError:
        event = None
    if not isinstance(event, dict) or "event" not in event:
        raise NotRun(f"it does not follow the protocol: {line.strip()[:80]!r}")
    return event


def _failure(code: int, log: IO[str]) -> str:
    """Why a program ended without a last word: the last line it wrote."""
    log.seek(0)
    lines = [line.strip() for line in log.read().splitlines() if line.strip()]
    return f"it ended with code {code}: {lines[-1][:200] if lines else 'it wrote nothing'}"


def _measurement(events: Sequence[Event], peak: int, busy: float, floors: Sequence[FloorReading]) -> Measurement:
    rounds = [event for event in events if event["event"] == "round"]
    if not rounds:
        raise NotRun("it reported no round")
    ready = next((event for event in events if event["event"] == "ready"), {})
    training = [event["train_seconds"] for event in rounds]
    return Measurement(
        samples=sum(event["samples"] for event in rounds),
        seconds=sum(event["seconds"] for event in rounds),
        train_seconds=None if None in training else sum(training),
        accuracy=rounds[-1]["accuracy"],
        rounds=len(rounds),
        setting=ready.get("setting", ""),
        peak_memory=peak or None,
        gpu_memory=events[-1].get("gpu_memory"),
        floors=tuple(reading.rate for reading in floors),
        processor_share=min((reading.processor_share for reading in floors), default=None),
        computed_in_pause=busy,
        versions=ready.get("versions", {}),
    )
