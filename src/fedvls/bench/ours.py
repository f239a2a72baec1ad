"""One row of ours: `python -m fedvls.bench.ours SETTINGS` runs one of our engines and reports as every program does."""

from __future__ import annotations

import sys
from typing import Any

from ..callbacks import Callback
from ..data import FederatedData
from ..errors import FedvlsError
from ..federation import Federation
from ..partition import given
from .inputs import workload_network
from .rivals.shared import Inputs, Reporter, read_inputs
from .workloads import get_workload


class Enough(Exception):
    """All timed rounds are done. The run is planned longer: its last round would evaluate every client's model too."""


class Rounds(Callback):
    """Reports every round with the run's own record of time."""

    def __init__(self, reporter: Reporter, inputs: Inputs) -> None:
        self.reporter, self.inputs = reporter, inputs

    def on_start(self, header: dict[str, Any], rounds: int, done: int) -> None:
        self.reporter.ready(f"engine {header['engine']['name']}, {header['dtype']}", "numpy")

    def on_round(self, record: dict[str, Any], timing: dict[str, Any]) -> None:
        told = {key: timing[key] for key in ("samples", "seconds", "train_seconds")}
        if not self.reporter.round_ended(record["accuracy"], **told):
            raise Enough


def run(inputs: Inputs, reporter: Reporter) -> None:
    """Train with the engine, method and dtype of the settings."""
    arrays = (inputs.arrays[key] for key in ("x_train", "y_train", "x_test", "y_test"))
    data = FederatedData.from_arrays(
        *arrays, classes=inputs["classes"], mean=inputs["mean"], std=inputs["std"], clients=inputs.positions
    )
    federation = Federation(
        data,
        partition=given(),
        model=workload_network(get_workload(inputs["name"]), 0).prototype,
        augmentation=inputs["augmentation"],
        engine=inputs["engine"],
        device=inputs["device"],
        dtype=inputs["dtype"],
        seed=inputs["seed"],
    )
    federation.run(
        inputs["method"],
        rounds=inputs.rounds + 1,
        epochs=inputs["epochs"],
        out=None,
        start=inputs.start,
        callbacks=[Rounds(reporter, inputs)],
        participation=inputs["cohort"] / inputs["clients"],
        batch_size=inputs["batch_size"],
        local_every=inputs.rounds + 2,
        **inputs.sgd,
    )


def main(path: str) -> None:
    inputs = read_inputs(path)
    reporter = Reporter(inputs)
    try:
        run(inputs, reporter)
    except FedvlsError as error:
        reporter.refused(str(error))
    except Enough:
        reporter.done()


if __name__ == "__main__":
    main(sys.argv[1])
