"""FedAvg with Flower's simulation (flwr): one Ray actor per core, one thread each; clients take slices of tensors."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from typing import Any

os.environ.update(FLWR_TELEMETRY_ENABLED="0", RAY_USAGE_STATS_ENABLED="0", RAY_DEDUP_LOGS="0")

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from shared import Inputs, Reporter, accuracy, kept, read_inputs, torch_device
from torch import nn


def train_client(path: str, arrays: Any, client: int) -> tuple[nn.Module, int]:
    """A client's model after its epochs, and its number of samples."""
    inputs, x, y = kept(path)
    device = torch_device(inputs["device"])
    torch.set_num_threads(1)
    model = inputs.model().to(device)
    model.load_state_dict(arrays.to_torch_state_dict())
    model.train()
    own = torch.from_numpy(inputs.positions[client])
    mine, labels = x[own].to(device), y[own].to(device)
    optimizer = inputs.optimizer(model)
    for _ in range(inputs["epochs"]):
        for rows in torch.split(torch.randperm(len(own)).to(device), inputs["batch_size"]):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(mine[rows]), labels[rows]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return model, len(own)


def client_app(path: str) -> Any:
    """What runs in the actors."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        client = int(context.node_config["partition-id"])
        model, samples = train_client(path, message.content["arrays"], client)
        told: dict[str, Any] = {
            "arrays": ArrayRecord(model.state_dict()),
            "metrics": MetricRecord({"num-examples": samples}),
        }
        return Message(content=RecordDict(told), reply_to=message)

    return app


def server_app(inputs: Inputs, reporter: Reporter) -> Any:
    """What samples, averages and evaluates."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        model = inputs.model().to(torch_device(inputs["device"]))
        x_test, y_test = inputs.test()

        def evaluate(round: int, arrays: Any) -> Any:
            if round > 0:
                model.load_state_dict(arrays.to_torch_state_dict())
                reporter.round_ended(accuracy(model, x_test, y_test), inputs.samples())
            return MetricRecord({"round": round})

        share = inputs["cohort"] / inputs["clients"]
        strategy = FedAvg(
            fraction_train=share,
            fraction_evaluate=0.0,
            min_train_nodes=inputs["cohort"],
            min_evaluate_nodes=0,
            min_available_nodes=inputs["clients"],
        )
        strategy.start(
            grid=grid,
            initial_arrays=ArrayRecord(inputs.model().state_dict()),
            num_rounds=inputs.rounds,
            evaluate_fn=evaluate,
        )

    return app


def run(path: str, inputs: Inputs, reporter: Reporter) -> None:
    """Train."""
    logging.getLogger("flwr").setLevel(logging.WARNING)
    torch.set_num_threads(1)
    actors = min(inputs["cores"], inputs["cohort"])
    gpus = 1.0 / actors if inputs["device"] == "cuda" else 0.0
    reporter.ready(f"{actors} Ray actors, 1 thread each", "flwr", "ray")
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        # A Ray of its own, in its own folder: by default it would join any cluster that runs on this machine.
        own = {"address": "local", "_temp_dir": folder, "num_cpus": actors, "log_to_driver": False}
        run_simulation(
            server_app=server_app(inputs, reporter),
            client_app=client_app(path),
            num_supernodes=inputs["clients"],
            backend_config={"init_args": own, "client_resources": {"num_cpus": 1, "num_gpus": gpus}},
        )


if __name__ == "__main__":
    given = read_inputs(sys.argv[1])
    telling = Reporter(given)
    run(sys.argv[1], given, telling)
    telling.done()
