"""Flower without processes: a grid that hands messages to ClientApps in this process, serialised as on the wire."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.task_identity import TaskIdentity
from safetensors.torch import load_file
from support import small_data
from torch import Tensor

import fedvls
from fedvls.flower import client_app, server_app
from fedvls.runs.store import RunDirectory

Change = Callable[[int, Message], Message]
FIRST = 100  # node ids are not site numbers
DIAGNOSES = ("angina", "asthma", "fracture", "sepsis", "stroke")


class Loopback(Grid):
    """Node FIRST + k has the node configuration `nodes[k]`; `change` may tamper with what it sends."""

    def __init__(self, app: ClientApp, nodes: list[dict[str, Any]], run_config: dict[str, Any]) -> None:
        self.app, self.nodes, self.run_config = app, nodes, run_config
        self.change: Change = lambda site, reply: reply
        self.down: list[Message] = []
        self.up: list[Message] = []
        self.offline: set[int] = set()
        self.lost: set[int] = set()
        """Sites that are thought to be connected and are not: Flower's server answers for them, as node 1."""

    def set_run(self, run: Any) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Any:
        raise NotImplementedError

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise NotImplementedError

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        raise NotImplementedError

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return [FIRST + k for k in range(len(self.nodes)) if k not in self.offline]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        replies = []
        # Answers arrive in the opposite order, which must not matter.
        for message in reversed(list(messages)):
            node = message.metadata.dst_node_id
            message.metadata.__dict__["_message_id"] = f"message to {node}"  # as Flower's grids do
            message = wire(message)
            self.down.append(message)
            context = Context(1, node, self.nodes[node - FIRST], RecordDict(), self.run_config)
            try:
                reply = self.app(message, context)
            except Exception as error:
                reply = Message(Error(0, str(error)), reply_to=message)
            if node - FIRST in self.lost:
                reply = Message(Error(0, "Node Unavailable"), reply_to=message)
                reply.metadata.__dict__["_src_node_id"] = 1
            reply = wire(self.change(node - FIRST, reply))
            self.up.append(reply)
            replies.append(reply)
        return replies


def identify(patch: pytest.MonkeyPatch) -> None:
    """Set what Flower's own processes set when they start."""
    for name in ("task_id", "run_id", "node_id"):
        patch.setattr(TaskIdentity, f"_{name}", 1)


def silence(patch: pytest.MonkeyPatch, home: Path) -> None:
    """Flower's switches: no telemetry, no update check, a home of its own."""
    patch.setenv("FLWR_TELEMETRY_ENABLED", "0")
    patch.setenv("FLWR_DISABLE_UPDATE_CHECK", "1")
    patch.setenv("FLWR_HOME", str(home))


def wire(message: Message) -> Message:
    """The message as it is after it went through Flower's serialisation."""
    return message_from_proto(message_to_proto(message))


def settings(run_dir: Path, **values: Any) -> dict[str, Any]:
    """The run configuration of three sites that share the digits as the simulator's clients would."""
    return {
        "clients": 3,
        "rounds": 2,
        "epochs": 1,
        "batch_size": 32,
        "data.name": "digits",
        "partition.name": "dirichlet",
        "partition.beta": 0.1,
        "method.name": "fedvls",
        "model.name": "mlp",
        "server.run_dir": str(run_dir),
        "server.evaluate_every": 0,
        "server.wait": 0.01,
        "device": "cpu",
        **values,
    }


def node_configs(clients: int, folder: Path) -> list[dict[str, Any]]:
    return [{"site": k, "state-dir": str(folder / f"state-{k}")} for k in range(clients)]


def deploy(server: ServerApp, grid: Loopback) -> RunDirectory:
    """Run the ServerApp on the grid; its folder."""
    server(grid, Context(1, 0, {}, RecordDict(), grid.run_config))
    return RunDirectory(Path(grid.run_config["server.run_dir"]))


def hospitals(folder: Path) -> RunDirectory:
    """Three rounds at three sites whose data only they have: site k lacks class k, and site 1 is away in round 2."""
    data = dataclasses.replace(small_data(), class_names=DIAGNOSES)

    def own(node: Mapping[str, Any]) -> fedvls.FederatedData:
        there = np.flatnonzero(data.y_train != node["site"])
        return dataclasses.replace(data, x_train=data.x_train[there], y_train=data.y_train[there])

    config = {
        "clients": 3,
        "rounds": 3,
        "epochs": 1,
        "batch_size": 8,
        "model.name": "mlp",
        "sites.sample_shape": "1,4,4",
        "sites.class_names": ",".join(DIAGNOSES),
        "server.run_dir": str(folder / "hospitals"),
        "device": "cpu",
    }
    grid = Loopback(client_app(data=own), node_configs(3, folder), config)

    def leave(site: int, reply: Message) -> Message:
        grid.lost = {1} if len(grid.up) == 6 else set()  # a round is three updates and three evaluations
        return reply

    grid.change = leave
    with pytest.MonkeyPatch.context() as patch:
        silence(patch, folder / "flwr")
        identify(patch)
        return deploy(server_app(), grid)


def final_weights(run: Path) -> dict[str, Tensor]:
    """The model of the newest checkpoint."""
    newest = sorted((run / "checkpoint").glob("*.safetensors"))[-1]
    return {k.removeprefix("model/"): t for k, t in load_file(newest).items() if k.startswith("model/")}


def simulated(
    run_config: dict[str, Any], method: Any = None, model: Any = None, out: Path | None = None, **choices: Any
) -> fedvls.Result:
    """The same federation in the simulator, on the reference engine."""
    federation = fedvls.Federation(
        "digits",
        partition=fedvls.dirichlet(beta=run_config["partition.beta"]),
        clients=run_config["clients"],
        model=model or run_config["model.name"],
        engine="sequential",
        device="cpu",
        dtype=run_config.get("dtype", "float32"),
    )
    return federation.run(
        method or run_config["method.name"],
        rounds=run_config["rounds"],
        epochs=run_config["epochs"],
        batch_size=run_config["batch_size"],
        participation=run_config.get("participation", 1.0),
        out=out,
        **choices,
    )
