"""The README's headline table is what the archived runs come to."""

from __future__ import annotations

import json
import re
import subprocess
import sys

from support import ROOT, command_environment

ROW = re.compile(
    r"^\| (\w+) \| ([\d.]+) \(([\d.]+)\) \| ([\d.]+) \(([\d.]+)\) \| ([\d.]+) \(([\d.]+)\) \|$", re.MULTILINE
)


def test_measured_and_published_numbers_in_the_readme_are_those_of_the_archive(tmp_path):
    found = {row[0]: [float(number) for number in row[1:]] for row in ROW.findall((ROOT / "README.md").read_text())}
    assert {"fedavg", "fedlc", "fedvls"} <= found.keys()
    command = ["reproduce", "dirichlet", "--dataset", "mnist", "--methods", ",".join(found), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "fedvls", *command, "--from-archive", str(ROOT / "results"), "--out", str(tmp_path)],
        env=command_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    cells = json.loads(done.stdout)["cells"]
    for method, numbers in found.items():
        own = [cell for cell in cells if cell["row"] == method]
        wanted = [round(value, 1) for cell in own for value in (cell["measured"]["mean"], cell["published"]["mean"])]
        assert numbers == wanted, method
