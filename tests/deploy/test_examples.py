"""The units and the compose file of examples/flower: they fit Flower's programs and what `fedvls flower certs` writes.

That they run was seen by hand: it needs a systemd to boot and a container engine.
"""

from __future__ import annotations

import configparser
import re
import shlex
import subprocess

import pytest
import yaml
from support import ROOT

from deploy.processes import BIN
from fedvls.flower.certificates import make_certificates

EXAMPLES = ROOT / "examples" / "flower"
PROGRAMS = ("flower-superlink", "flower-supernode")


def unit(program: str) -> dict[str, str]:
    """The [Service] of the program's unit; of repeated keys the last."""
    parser = configparser.RawConfigParser(strict=False, delimiters="=", comment_prefixes="#")
    parser.optionxform = str  # type: ignore[assignment]
    text = (EXAMPLES / f"fedvls-{program.removeprefix('flower-')}.service").read_text()
    parser.read_string(text.replace("\\\n", " "))
    return dict(parser["Service"])


def services() -> dict[str, dict]:
    return yaml.safe_load((EXAMPLES / "compose.yaml").read_text())["services"]


def commands(program: str) -> list[list[str]]:
    """Every command line of this program in the examples, without the program."""
    lines = [unit(program)["ExecStart"]]
    for service in services().values():
        command = service["command"]
        lines.append(command if isinstance(command, str) else command[-1])
    return [shlex.split(line.split(program, 1)[1]) for line in lines if program in line]


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_option_of_the_examples_is_one_of_flowers(program):
    helped = subprocess.run([str(BIN / program), "--help"], capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"--[a-z-]+", helped))
    given = [{word for word in command if word.startswith("--")} for command in commands(program)]
    assert len(given) == {"flower-superlink": 2, "flower-supernode": 4}[program]
    assert [options - known for options in given] == [set()] * len(given)


def test_containers_see_their_own_key_and_nobody_the_authoritys(tmp_path):
    make_certificates(tmp_path, ["superlink"], ["127.0.0.1"], sites=3, days=1)
    written = {path.name for path in tmp_path.iterdir()}
    mounted = {
        name: {v.split(":")[0].removeprefix("./certs/") for v in service["volumes"] if v.startswith("./certs/")}
        for name, service in services().items()
    }
    assert mounted == {
        "superlink": {"ca.crt", "server.pem", "server.key"},
        **{f"site-{k}": {"ca.crt", f"site-{k}"} for k in range(3)},
    }
    assert set().union(*mounted.values()) <= written
    for service in services().values():
        read_only = [v.endswith(":ro") for v in service["volumes"] if v.startswith("./")]
        assert read_only
        assert all(read_only)


@pytest.mark.parametrize("program", PROGRAMS)
def test_units_write_where_they_may(program):
    """With ProtectSystem=strict only the state directory can be written."""
    service = unit(program)
    assert service["ProtectSystem"] == "strict"
    assert service["WorkingDirectory"] == f"/var/lib/{service['StateDirectory']}"
    (command,) = [c for c in commands(program) if any(word.startswith("/etc/fedvls") for word in c)]
    written = re.findall(r"(?:--database |state-dir=\"?)([^\s\"]+)", " ".join(command))
    assert len(written) == 1
    assert written[0].startswith(service["WorkingDirectory"])
