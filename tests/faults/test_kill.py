"""A run killed with SIGKILL at random moments and resumed ends with the bits of one that was never touched."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path

from support import run_command, start_command

KILLS = 12
ROUNDS = 60
# Momentum that survives rounds puts client state into the checkpoints; participation exercises sampling.
OPTIONS = f"""--method fedvls+fedexp --dataset digits --beta 0.1 --rounds {ROUNDS} --epochs 2 --participation 0.5
    --local-every 7 --device cpu --set persistent_momentum=true""".split()


def last_round(run: Path) -> int:
    """Lines of the metrics log so far."""
    log = run / "metrics.jsonl"
    return log.read_bytes().count(b"\n") if log.exists() else 0


def start_and_kill(arguments: list[str], run: Path, cwd: Path, delay: float) -> bool:
    """Start, wait until a round has been written and a little longer, kill. False if it ended before."""
    before = last_round(run)
    process = start_command(*arguments, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        # A resumed run first cuts its log back to the checkpoint, so the count may fall before it rises.
        if last_round(run) > before:
            break
        time.sleep(0.01)
    time.sleep(delay)
    alive = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    return alive


def test_resume_after_kill_is_bit_identical(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run_command("run", *OPTIONS, "--out", whole, cwd=tmp_path, check=True)
    chance = random.Random(20250115)
    kills = 0
    while kills < KILLS:
        arguments = (
            ["resume", str(broken)] if (broken / "config.yaml").exists() else ["run", *OPTIONS, "--out", str(broken)]
        )
        assert start_and_kill(arguments, broken, tmp_path, chance.uniform(0, 0.15)), "the run ended before enough kills"
        kills += 1
    assert 0 < last_round(broken) < ROUNDS
    run_command("resume", broken, cwd=tmp_path, check=True)
    for name in ("metrics.jsonl", "result.json", "config.yaml", f"checkpoint/round-{ROUNDS:06d}.safetensors"):
        assert (whole / name).read_bytes() == (broken / name).read_bytes(), name
    leftovers = [p.name for p in broken.rglob("*.tmp")]
    assert len(leftovers) <= kills  # a killed write may leave its temporary file, never a half-written real one
    assert len(list((broken / "checkpoint").glob("round-*.safetensors"))) == 2
