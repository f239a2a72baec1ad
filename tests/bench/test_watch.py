"""The protocol between the watcher and a program, with programs written here and run by this interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedvls.bench import processes
from fedvls.bench.floor import FloorReading
from fedvls.bench.rivals import shared
from fedvls.bench.watch import NotRun, measure

RIVAL = """
import sys
sys.path.insert(0, {shared!r})
from shared import Reporter
reporter = Reporter({{"rounds": {rounds}}})
print("noise of a library")
reporter.ready("as a fake", "numpy")
for number in range({rounds} + 1):
    reporter.round_ended(accuracy=number / 10, samples=100, seconds=2.0, train_seconds=1.0)
{end}
"""


def program(tmp_path: Path, rounds: int = 3, end: str = "reporter.done()") -> list[str]:
    script = tmp_path / "on_fake.py"
    script.write_text(RIVAL.format(shared=str(Path(shared.__file__).parent), rounds=rounds, end=end))
    return [sys.executable, str(script)]


def written(tmp_path: Path, text: str) -> list[str]:
    (tmp_path / "own.py").write_text(text)
    return [sys.executable, str(tmp_path / "own.py")]


def test_a_program_is_measured_without_its_first_round_and_between_two_floors(tmp_path):
    floors = iter([FloorReading(1000.0, 0.9), FloorReading(3000.0, 1.0)])
    events = []
    found = measure(program(tmp_path), floor=lambda: next(floors), on_event=events.append)
    assert (found.samples, found.seconds, found.train_seconds, found.rounds) == (300, 6.0, 3.0, 3)
    assert (found.rate, found.train_rate, found.accuracy) == (50.0, 100.0, 0.3)
    assert (found.floors, found.processor_share, found.steady) == ((1000.0, 3000.0), 0.9, False)
    assert (found.floor, found.share_of_floor) == (2000.0, 0.025)
    assert found.setting == "as a fake"
    assert "numpy" in found.versions
    said = [event["event"] for event in events]
    assert said == ["ready", "pause", "round", "round", "round", "pause", "done"]


def test_a_program_that_computes_in_its_pause_is_found_out(tmp_path):
    """As a process that is not told to wait would: its work is off the clock, and the floor beside it too low."""
    spin = "import threading\ndef spin():\n    while True: pass\nthreading.Thread(target=spin, daemon=True).start()\n"
    command = program(tmp_path)
    script = Path(command[1])

    def floor() -> FloorReading:
        time.sleep(1.0)
        return FloorReading(1000.0, 1.0)

    waiting = measure(command, floor=floor).computed_in_pause
    script.write_text(spin + script.read_text())
    if Path("/proc/self/stat").exists():
        assert measure(command, floor=floor).computed_in_pause > waiting


def test_a_refusal_is_the_reason(tmp_path):
    with pytest.raises(NotRun, match=r"^the engine needs a GPU$"):
        measure(program(tmp_path, end="reporter.refused('the engine needs\\n a GPU')"))


def test_a_program_that_dies_is_explained_by_its_last_line(tmp_path):
    with pytest.raises(NotRun, match=r"^it ended with code 1: ValueError: no such data$"):
        measure(written(tmp_path, "raise ValueError('no such data')"))


def test_a_program_that_says_something_else_is_refused(tmp_path):
    with pytest.raises(NotRun, match="does not follow the protocol: 'hello'"):
        measure(written(tmp_path, "print('hello', flush=True); import time; time.sleep(60)"))


def test_a_program_that_reports_no_round_is_not_a_measurement(tmp_path):
    with pytest.raises(NotRun, match="it reported no round"):
        measure(written(tmp_path, """print('{"event": "done"}', flush=True)"""))


def test_a_silent_program_is_given_up_with_all_its_children(tmp_path):
    child = "import subprocess, sys, time, pathlib\n"
    child += "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    child += f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(p.pid)); time.sleep(60)"
    with pytest.raises(NotRun, match="no word for"):
        measure(written(tmp_path, child), limit=1)
    pid = int((tmp_path / "pid").read_text())
    for _ in range(50):  # the system may need a moment to bury it
        if not alive(pid):
            break
        time.sleep(0.1)
    assert not alive(pid)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_memory_counts_a_whole_family():
    hold = "x = bytearray(60_000_000); print('ready', flush=True); input()"
    code = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {hold!r}]); p.wait()"
    parent = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert parent.stdout.readline() == b"ready\n"
        if Path("/proc/self/smaps_rollup").exists():
            assert len(processes.tree(parent.pid)) == 2
            assert processes.memory(parent.pid) > 60_000_000
        else:
            assert processes.memory(parent.pid) is None
    finally:
        processes.end(parent.pid)
        parent.communicate()
    assert os.getpid() not in processes.tree(parent.pid)
