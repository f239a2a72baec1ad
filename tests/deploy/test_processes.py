"""One SuperLink and three SuperNodes in real processes, TLS and node keys on: equality, refusals, kill -9.

All tests share the deployment, in this order; tests/conftest.py keeps them on one worker.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from support import run_command

import fedvls
from deploy.loopback import final_weights
from deploy.processes import Deployment, new_app, wait_until
from fedvls.flower.certificates import make_certificates
from fedvls.runs.store import RunDirectory

SITES = 3
LOCAL = {"epochs": 1, "batch_size": 32}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("deployment")


@pytest.fixture(scope="module")
def simulator() -> fedvls.Federation:
    return fedvls.Federation(
        "digits", partition=fedvls.dirichlet(beta=0.1), clients=SITES, engine="sequential", device="cpu"
    )


@pytest.fixture(scope="module")
def deployment(folder, simulator):
    """Started once: certificates, SuperLink, registered keys, three nodes with a file of their own each."""
    new_app(folder / "app", SITES, dataset="sites", sample_shape="1,8,8", classes=10)
    data = simulator.data
    test = {"x_test": data.x_test, "y_test": data.y_test}
    for site, own in enumerate(simulator.split.indices):
        np.savez(folder / f"site-{site}.npz", x_train=data.x_train[own], y_train=data.y_train[own], **test)
    np.savez(folder / "test.npz", x_train=data.x_test[:1], y_train=data.y_test[:1], **test)
    started = Deployment(folder / "flower", tls=True)
    try:
        started.superlink()
        started.register(*range(SITES))
        for site in range(SITES):
            start_site(started, site)
        wait_until(lambda: connected(started) >= SITES, 60, lambda: started.said("superlink"))
        yield started
    finally:
        started.close()


def start_site(deployment: Deployment, site: int) -> None:
    folder = deployment.folder.parent
    deployment.site(site, f'data-path="{folder}/site-{site}.npz" state-dir="{folder}/state-{site}"')


def connected(deployment: Deployment) -> int:
    """How often a node has been let in."""
    return deployment.said("superlink").count("Activated node_id")


def start_run(deployment: Deployment, name: str, **values: object) -> tuple[int, RunDirectory]:
    """`flwr run` with a run folder of this name."""
    folder = deployment.folder.parent
    settings = {
        **LOCAL,
        "device": "cpu",
        "sites.mean": "0.5",
        "sites.std": "0.5",
        "server.run_dir": str(folder / name),
        "server.test_data": str(folder / "test.npz"),
        "server.evaluate_every": 0,
        **values,
    }
    text = " ".join(
        f'{key}="{value}"' if isinstance(value, str) else f"{key}={value}" for key, value in settings.items()
    )
    return deployment.run(folder / "app", text), RunDirectory(folder / name)


def assert_weights_of_the_simulator(run: RunDirectory, simulator: fedvls.Federation, method: str, rounds: int) -> None:
    result = simulator.run(method, rounds=rounds, **LOCAL, out=None)
    found = final_weights(run.path)
    for name, tensor in result.weights.tensors().items():
        assert torch.equal(found[name], tensor), name


def test_three_sites_with_tls_and_node_keys_end_with_the_simulators_weights(deployment, simulator):
    number, run = start_run(deployment, "plain", rounds=2, **{"server.evaluate_every": 2})
    deployment.finish(number, run.path / "result.json")
    assert_weights_of_the_simulator(run, simulator, "fedvls", 2)
    first, last = run.records()
    assert "sites" not in first
    assert [site["client"] for site in last["sites"]["clients"]] == [0, 1, 2]
    assert last["sites"]["accuracy"] == pytest.approx(last["accuracy"])  # all three test on the same file here
    shown = run_command("show", run.path, cwd=run.path, check=True).stdout
    assert "fedvls" in shown
    assert "data at 3 sites" in shown


def test_nodes_without_a_registered_key_or_the_right_ca_are_refused(deployment, folder):
    """Five nodes that must not get in, started together; each says why, and the server lets none of them in."""
    certs, before = deployment.certs, connected(deployment)
    make_certificates(folder / "wrong", [], ["127.0.0.1"], sites=0, days=1)
    key, ca = ["--auth-supernode-private-key"], ["--root-certificates"]
    bad = {
        "unregistered key": [*ca, certs / "ca.crt", *key, certs / "site-3"],
        "no key": [*ca, certs / "ca.crt"],
        "no CA": [*key, certs / "site-0"],
        "wrong CA": [*ca, folder / "wrong" / "ca.crt", *key, certs / "site-0"],
        "no TLS": ["--insecure"],
    }
    reasons = {
        "unregistered key": "Failed to activate SuperNode",
        "no key": "SuperNode authentication is enabled",
        "no CA": "CERTIFICATE_VERIFY_FAILED",
        "wrong CA": "CERTIFICATE_VERIFY_FAILED",
        "no TLS": "Server disconnected",
    }
    for name, options in bad.items():
        deployment.supernode(name, "site=0", *options, "--max-wait-time", "5", "--max-retries", "1")
    try:
        wait_until(
            lambda: all(deployment.processes[name].poll() is not None for name in bad),
            60,
            lambda: str({name: deployment.processes[name].poll() for name in bad}),
        )
        codes = {name: deployment.processes[name].poll() for name in bad}
        assert all(code != 0 for code in codes.values()), codes
        assert {name: reasons[name] in deployment.said(name) for name in bad} == dict.fromkeys(bad, True)
    finally:
        for name in bad:
            if deployment.processes[name].poll() is None:
                deployment.kill(name)
            deployment.processes.pop(name, None)
    assert connected(deployment) == before


def test_a_killed_node_does_not_stop_the_round_and_takes_part_again_when_restarted(deployment):
    """Round 2 ends when Flower has missed two heartbeats, about a minute; round 3 waits until all are connected."""
    number, run = start_run(deployment, "killed-node", rounds=3, **{"method.name": "fedavg"})
    log = lambda: deployment.flwr("log", number, "test", "--show")  # noqa: E731
    wait_until(lambda: len(run.records()) == 1, 120, log)
    time.sleep(2)
    assert any("flower-supernode" in command for command in deployment.kill("site-2"))
    wait_until(lambda: len(run.records()) == 2, 150, log)
    start_site(deployment, 2)
    deployment.finish(number, run.path / "result.json")
    first, second, third = run.records()
    assert first["cohort"] == second["cohort"] == third["cohort"] == [0, 1, 2]
    assert [record["left_out"] for record in (first, second, third)] == [[], [2], []]
    assert "Node Unavailable" in second["refused"]["site 2"]


def test_a_run_whose_superlink_and_server_app_are_killed_is_resumed_to_the_same_weights(deployment, simulator):
    """SCAFFOLD, because it has state everywhere: at the sites, at the server, and on the way."""
    number, run = start_run(deployment, "killed-server", rounds=3, **{"method.name": "scaffold"})
    wait_until(lambda: len(run.records()) == 1, 120, lambda: deployment.flwr("log", number, "test", "--show"))
    time.sleep(3)
    killed = deployment.kill("superlink")
    assert any("flwr-serverapp" in command for command in killed), killed
    assert len(run.records()) == 1
    deployment.superlink()  # the nodes find it again by themselves, and the run waits for them
    again, _ = start_run(deployment, "killed-server", rounds=3, **{"method.name": "scaffold"})
    deployment.finish(again, run.path / "result.json")
    assert [record["round"] for record in run.records()] == [1, 2, 3]
    assert_weights_of_the_simulator(run, simulator, "scaffold", 3)
    shutil.rmtree(run.path)
