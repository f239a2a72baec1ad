"""A deployment over hosts of its own: network namespaces with addresses and cables: examples/flower/hosts.sh."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache

from support import ROOT

from deploy.processes import Deployment

PREFIX = f"f{os.getpid()}"  # several test processes may have hosts at the same time


def hosts(*command: str) -> bool:
    """`hosts.sh COMMAND`; whether it worked."""
    script = [str(ROOT / "examples" / "flower" / "hosts.sh"), *command]
    return (
        subprocess.run(script, env={**os.environ, "PREFIX": PREFIX}, capture_output=True, check=False).returncode == 0
    )


@cache
def allowed() -> bool:
    """Whether hosts can be made here: Linux, root, iproute2, and a kernel that lets us."""
    made = sys.platform == "linux" and os.geteuid() == 0 and hosts("up")
    return made and hosts("down")


class Machines(Deployment):
    """A process whose name begins with the name of a site runs on that site's host, all others on the server's."""

    address, listens_on = "10.77.0.5", "0.0.0.0"

    def machine(self, name: str) -> list[str]:
        host = name[: len("site-0")] if name.startswith("site-") else "server"
        return ["ip", "netns", "exec", f"{PREFIX}-{host}"]

    def listens(self) -> bool:
        return "Uvicorn running" in self.said("superlink")
