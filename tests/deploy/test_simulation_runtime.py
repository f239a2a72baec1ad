"""The same apps in Flower's simulation runtime: a SuperLink of our own, Ray's worker processes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from deploy.loopback import Loopback, deploy, final_weights, node_configs, settings, simulated
from deploy.processes import Deployment, new_app
from fedvls.flower import client_app, server_app
from fedvls.runs.store import RunDirectory

MANY = 50
BAD_SITES = '''
"""Three of the sites send nonsense."""

import numpy as np
from flwr.app import Array, ArrayRecord

from fedvls.flower import client_app


def nonsense(message, context, call_next):
    reply = call_next(message, context)
    arrays = {name: array.numpy().copy() for name, array in reply.content["arrays"].items()}
    first, metrics = next(iter(arrays)), reply.content["metrics"]
    site = metrics["site"]
    if site == 1:
        arrays[first].flat[0] = np.nan
    elif site == 2:
        arrays[first] = arrays[first][:-1]
    elif site == 3:
        metrics["num-examples"] = 10**12
    reply.content["arrays"] = ArrayRecord({name: Array(array) for name, array in arrays.items()})
    return reply


app = client_app(mods=[nonsense])
'''


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    started = Deployment(tmp_path_factory.mktemp("simulation") / "flower", simulation={"three": 3, "many": MANY})
    try:
        started.superlink()
        yield started
    finally:
        started.close()


def run_app(
    deployment: Deployment, connection: str, clients: int, beta: float, app: str = ""
) -> tuple[RunDirectory, str]:
    """The run's folder and its log."""
    folder = deployment.folder.parent / connection
    new_app(folder, clients)
    if app:
        (folder / "client_app.py").write_text(app)
    text = f'epochs=1 batch_size=32 device="cpu" server.evaluate_every=0 partition.beta={beta}'
    number = deployment.run(folder, text, connection)
    deployment.finish(number, folder / "run" / "result.json")
    return RunDirectory(folder / "run"), deployment.flwr("log", number, connection, "--show")


def test_flowers_simulation_ends_with_our_simulators_weights(deployment, tmp_path):
    run, _ = run_app(deployment, "three", 3, 0.1)
    expected = simulated(settings(tmp_path / "unused")).weights.tensors()
    found = final_weights(run.path)
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())


def test_fifty_sites_complete_and_three_that_send_nonsense_change_nothing_and_are_named(deployment, tmp_path):
    """The weights are those of a federation in which sites 1, 2 and 3 were not connected."""
    run, log = run_app(deployment, "many", MANY, 0.5, BAD_SITES)
    records = run.records()
    assert len(records) == 2
    for record in records:
        assert record["cohort"] == list(range(MANY))
        assert record["left_out"] == [1, 2, 3]
        assert "not finite" in record["refused"]["site 1"]
        assert "shape" in record["refused"]["site 2"]
        assert "num-examples = 1000000000000" in record["refused"]["site 3"]
    assert all(f"round 2: the update of site {site} does not count" in log for site in (1, 2, 3))
    found, expected = final_weights(run.path), without_three(tmp_path)
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())


def without_three(folder: Path) -> dict[str, torch.Tensor]:
    config = settings(folder / "without", clients=MANY, **{"server.min_sites": MANY - 3, "partition.beta": 0.5})
    grid = Loopback(client_app(), node_configs(MANY, folder), config)
    grid.offline = {1, 2, 3}
    return final_weights(deploy(server_app(), grid).path)
