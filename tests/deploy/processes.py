"""A Flower deployment in real processes on loopback: own home, free ports, stopped by process id."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from support import ROOT

from fedvls.flower.certificates import make_certificates
from fedvls.flower.new_app import write_app

BIN = Path(sys.executable).parent


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def new_app(folder: Path, clients: int, **values: Any) -> None:
    """What `fedvls flower new` writes."""
    chosen = {"dataset": "digits", "sample_shape": "", "classes": 0, **values}
    write_app(folder, method="fedvls", model="mlp", clients=clients, rounds=2, **chosen)


def wait_until(condition: Callable[[], Any], seconds: float, what: Callable[[], str]) -> None:
    """Look twice a second; what(): said when it never comes true."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, what()
        time.sleep(0.5)


class Deployment:
    """One SuperLink and its SuperNodes; `simulation` names connections with so many simulated nodes each."""

    address, listens_on = "127.0.0.1", "127.0.0.1"
    """Where the server is found, and where it listens."""

    def __init__(self, folder: Path, *, tls: bool = False, simulation: dict[str, int] | None = None) -> None:
        self.folder, self.tls, self.simulation = folder, tls, simulation or {}
        self.port = free_port()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.certs = folder / "certs"
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        if tls:
            make_certificates(self.certs, [], [self.address], sites=4, days=1)
        trust = f'root-certificates = "{self.certs}/ca.crt"' if tls else "insecure = true"
        there = f'address = "{self.address}:{self.port}"\n{trust}\n'
        text = f"[superlink.test]\n{there}"
        for name, nodes in self.simulation.items():
            text += f"[superlink.{name}]\n{there}options.num-supernodes = {nodes}\n"
            text += "options.backend.client-resources.num-cpus = 1\n"
        (self.home / "config.toml").write_text(text)

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "OMP_NUM_THREADS": "1",
            "FLWR_HOME": str(self.home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
        }

    def machine(self, name: str) -> list[str]:
        """What to put before a command so that it runs on the machine of this process."""
        return []

    def start(self, name: str, *command: object) -> subprocess.Popen[bytes]:
        """A process that is not waited for; what it says goes to its log."""
        log = self.log(name).open("ab")
        process = subprocess.Popen(
            [*self.machine(name), str(BIN / str(command[0])), *map(str, command[1:])],
            cwd=self.folder,
            env=self.environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        log.close()
        self.processes[name] = process
        return process

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def said(self, name: str) -> str:
        return self.log(name).read_text(errors="replace") if self.log(name).exists() else ""

    def superlink(self) -> None:
        """Start it and wait until it listens."""
        options: list[object] = ["--insecure"]
        if self.tls:
            options = ["--ssl-ca-certfile", self.certs / "ca.crt", "--ssl-certfile", self.certs / "server.pem"]
            options += ["--ssl-keyfile", self.certs / "server.key", "--enable-supernode-auth"]
        if self.simulation:
            options.append("--simulation")
        process = self.start(
            "superlink",
            *("flower-superlink", "--host", self.listens_on, "--port", self.port, *options),
            *("--database", self.folder / "state.db", "--disable-runtime-dependency-installation"),
        )
        wait_until(lambda: self.listens() or process.poll() is not None, 60, lambda: self.said("superlink"))
        assert process.poll() is None, self.said("superlink")

    def listens(self) -> bool:
        with socket.socket() as one:
            return one.connect_ex((self.address, self.port)) == 0

    def supernode(self, name: str, node_config: str, *options: object) -> subprocess.Popen[bytes]:
        return self.start(
            name,
            *("flower-supernode", "--superlink", f"{self.address}:{self.port}", "--port", free_port(), *options),
            *("--node-config", node_config),
        )

    def site(self, number: int, more: str = "") -> subprocess.Popen[bytes]:
        """A node as it should be started."""
        secure = ["--root-certificates", self.certs / "ca.crt"]
        secure += ["--auth-supernode-private-key", self.certs / f"site-{number}"]
        return self.supernode(f"site-{number}", f"site={number} {more}", *(secure if self.tls else ["--insecure"]))

    def flwr(self, *arguments: object) -> str:
        """A command of Flower's; what it prints."""
        done = subprocess.run(
            [*self.machine("superlink"), str(BIN / "flwr"), *map(str, arguments)],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def register(self, *sites: int) -> None:
        for site in sites:
            self.flwr("supernode", "register", self.certs / f"site-{site}.pub", "test")

    def run(self, app: Path, run_config: str = "", connection: str = "test") -> int:
        """Start a run; its number."""
        options = ("--run-config", run_config) if run_config else ()
        answer = json.loads(self.flwr("run", app, connection, "--format", "json", *options))
        assert answer["success"], answer
        return int(answer["run-id"])

    def online(self) -> int:
        nodes = json.loads(self.flwr("supernode", "list", "test", "--format", "json"))
        return sum(node["status"] == "online" for node in nodes["nodes"])

    def status(self, run: int) -> str:
        runs = json.loads(self.flwr("list", "test", "--format", "json"))["runs"]
        return str(next(one["status"] for one in runs if int(one["run-id"]) == run))

    def finish(self, run: int, result: Path, seconds: float = 150) -> None:
        """Wait until the run's result is there."""
        wait_until(result.exists, seconds, lambda: self.flwr("log", run, "test", "--show") + self.said("superlink"))

    def kill(self, name: str) -> list[str]:
        """kill -9 of the process and of everything it started; the commands that were killed."""
        process = self.processes.pop(name)
        killed = descendants(process.pid)
        for pid in killed:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        return list(killed.values())

    def close(self) -> None:
        """Ask everything that was started to end; what has not ended after ten seconds is killed."""
        started = {name: descendants(process.pid) for name, process in self.processes.items()}
        for process in self.processes.values():
            process.terminate()
        for name, process in list(self.processes.items()):
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            for pid in started[name]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
        self.processes.clear()


def descendants(pid: int) -> dict[int, str]:
    """The process and all that descend from it, with their commands; Flower starts some in sessions of their own."""
    every_command_whole = ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="]
    listed = subprocess.run(every_command_whole, capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    found = {pid: next((row[2] for row in rows if int(row[0]) == pid), "")}
    while more := {int(r[0]): r[2] for r in rows if int(r[1]) in found and int(r[0]) not in found}:
        found |= more
    return found
