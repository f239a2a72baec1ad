"""Live curves in the terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import time

import pytest
from support import command_environment, run_command, start_command, write_run

from fedvls.report.terminal import bounds, plot_cells
from fedvls.report.watch import progress_of


def letters(cells) -> list[str]:
    return ["".join(cell.letter for cell in row) for row in cells]


def test_a_rising_line_goes_from_corner_to_corner_in_letters():
    assert letters(plot_cells([[0.0, 0.5, 1.0]], 3, 3, 3, 0, 1, ascii=True)) == ["  *", " * ", "*  "]


def test_braille_has_eight_dots_to_a_letter():
    """Two columns, four rows: the diagonal of one letter is dots 1, 2, 6 and 8: U+2800 + 0x01 + 0x02 + 0x20 + 0x80."""
    ((cell,),) = plot_cells([[1.0, 0.0]], 2, 1, 1, 0, 1, ascii=False)
    assert ord(cell.letter) - 0x2800 == 0x01 + 0x02 + 0x20 + 0x80


def test_a_curve_takes_the_share_of_the_width_that_its_rounds_are_of_all():
    (row,) = letters(plot_cells([[0.5] * 5], 9, 9, 1, 0, 1, ascii=True))
    assert row == "*****    "


def test_the_axis_opens_to_whole_tens():
    assert bounds([[0.123, 0.456]]) == (0.1, 0.5)
    assert bounds([[0.2, 0.2]]) == pytest.approx((0.2, 0.3))
    assert bounds([[]]) == (0.0, 1.0)


def test_once_shows_curve_numbers_and_standing(tmp_path):
    write_run(tmp_path / "done", "fedvls", rounds=6)
    write_run(tmp_path / "going", "fedavg", rounds=6, complete=False)
    os.utime(tmp_path / "going" / "metrics.jsonl", (time.time() - 600, time.time() - 600))
    shown = run_command("watch", ".", "--once", cwd=tmp_path, check=True).stdout
    assert re.search("[\u2801-\u28ff]", shown)
    assert "6/6" in shown
    assert "5/6" in shown
    assert "complete" in shown
    assert "no new round for 10 min" in shown
    plain = run_command("watch", ".", "--once", "--ascii", cwd=tmp_path, check=True).stdout
    assert plain.isascii()
    assert "* done" in plain
    assert "o going" in plain


def test_time_left_is_the_median_pace_of_the_last_rounds(tmp_path):
    run = write_run(tmp_path / "r", rounds=7, complete=False)
    assert progress_of(run).left == pytest.approx(0.5)  # one round of half a second


def test_watching_does_not_load_torch():
    code = "import sys, fedvls.report.watch; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=command_environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def test_it_follows_a_run_and_ends_with_it(tmp_path):
    """A real run and, started beside it, the watcher: a line per round where there is no terminal."""
    arguments = ["run", "--dataset", "digits", "--rounds", 12, "--epochs", 1, "--device", "cpu", "--out", "r"]
    run = start_command(*arguments, cwd=tmp_path, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (tmp_path / "r" / "config.yaml").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    seen = run_command("watch", "r", cwd=tmp_path, check=True).stdout.splitlines()
    assert run.wait(timeout=60) == 0
    assert [line.split(",")[0] for line in seen] == [f"r: round {k}/12" for k in range(1, 13)]


def test_a_terminal_sees_the_picture_redrawn(tmp_path):
    write_run(tmp_path / "r", rounds=6)
    lead, follow = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "fedvls", "watch", "r"],
        cwd=tmp_path,
        env={**command_environment(), "TERM": "xterm-256color", "LINES": "30", "PYTHONIOENCODING": "utf-8"},
        stdout=follow,
        stderr=follow,
    )
    os.close(follow)
    seen = b""
    try:
        while chunk := os.read(lead, 4096):
            seen += chunk
    except OSError:  # the other end is closed
        pass
    os.close(lead)
    assert process.wait(timeout=60) == 0
    assert "complete" in seen.decode()
    assert re.search("[\u2801-\u28ff]", seen.decode())


def test_a_folder_without_a_run_is_an_error(tmp_path):
    done = run_command("watch", ".", cwd=tmp_path)
    assert done.returncode == 2
    assert "no run at ." in done.stderr
