"""A server and two sites on hosts of their own, joined by a network that can be cut."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch

from deploy.loopback import final_weights, settings, simulated
from deploy.machines import Machines, hosts
from deploy.processes import new_app, wait_until


@pytest.fixture
def machines(tmp_path):
    assert hosts("up")
    started = Machines(tmp_path / "flower", tls=True)
    try:
        started.superlink()
        started.register(0, 1)
        yield started
    finally:
        started.close()
        hosts("down")


def run_config(values: dict[str, object]) -> str:
    return " ".join(f'{key}="{v}"' if isinstance(v, str) else f"{key}={v}" for key, v in values.items())


def test_a_site_whose_network_fails_for_a_while_is_waited_for_and_a_stranger_is_refused(machines, tmp_path: Path):
    """Over real addresses, the server on all of its own; the weights are those of a simulation without any trouble."""
    new_app(tmp_path / "app", 2)
    for site in range(2):
        machines.site(site)
    stranger = machines.supernode(
        *("site-2-stranger", "site=2", "--root-certificates", machines.certs / "ca.crt"),
        *("--auth-supernode-private-key", machines.certs / "site-3"),  # its key is not registered
    )
    config = settings(tmp_path / "run", clients=2, rounds=1, **{"server.wait": 60.0})
    number = machines.run(tmp_path / "app", run_config(config))
    told = lambda: machines.flwr("log", number, "test", "--show") + machines.said("site-1")  # noqa: E731
    wait_until(lambda: "Received successfully" in machines.said("site-1"), 60, told)
    assert hosts("cut", "1")
    wait_until(lambda: "Sending: train message" in machines.said("site-1"), 60, told)
    time.sleep(1)
    assert "Sent successfully" not in machines.said("site-1")
    assert hosts("mend", "1")
    machines.finish(number, tmp_path / "run" / "result.json")
    result = simulated(config)
    found = final_weights(tmp_path / "run")
    assert all(torch.equal(found[name], tensor) for name, tensor in result.weights.tensors().items())
    assert stranger.wait(10) != 0
    assert "Failed to activate SuperNode" in machines.said("site-2-stranger")
    assert machines.said("superlink").count("Activated node_id") == 2
