"""FedAvg with pfl (pfl-research): its simulated backend; on a CPU one process per core, as it is fastest there."""

from __future__ import annotations

import functools
import os
import sys
from types import MethodType
from typing import Any

import numpy as np
import torch
from shared import Inputs, Reporter, accuracy, read_inputs
from torch import Tensor, nn


class Sampler:
    """Clients in random order, each once before one comes again; the same in every process."""

    def __init__(self, clients: int) -> None:
        self.random, self.clients = np.random.RandomState(0), clients
        self.left: list[int] = []

    def __call__(self) -> int:
        if not self.left:
            self.left = [int(c) for c in self.random.permutation(self.clients)]
        return self.left.pop()


def loss(model: nn.Module, x: Tensor, y: Tensor, eval: bool = False) -> Tensor:
    """What pfl differentiates."""
    model.train(not eval)
    return nn.functional.cross_entropy(model(x), y)


def metrics(model: nn.Module, x: Tensor, y: Tensor, eval: bool = True) -> dict[str, Any]:
    """What pfl measures on clients before and after training; here in the untimed first round only."""
    from pfl.metrics import Weighted

    model.train(not eval)
    with torch.no_grad():
        hits = int((model(x).argmax(-1) == y).sum())
    return {"accuracy": Weighted(hits, len(y))}


def run(inputs: Inputs, reporter: Reporter | None) -> None:
    """Train; the process that has a reporter evaluates and reports."""
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.aggregate.weighting import WeightByDatapoints
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams
    from pfl.internal.ops import pytorch_ops
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel

    torch.set_num_threads(1)
    processes = pytorch_ops.distributed.world_size
    device = pytorch_ops.get_default_device()
    x, y = (part.to(device) for part in inputs.train())
    x_test, y_test = inputs.test()
    random = np.random.RandomState(0)

    def client_data(client: int) -> Any:
        own = torch.from_numpy(random.permutation(inputs.positions[client])).to(device)
        return PyTorchTensorDataset((x[own], y[own]), user_id=str(client))

    sizes = {client: len(own) for client, own in enumerate(inputs.positions)}
    data = FederatedDataset(client_data, Sampler(inputs["clients"]), user_id_to_weight=sizes)
    module = inputs.model()
    module.loss = MethodType(loss, module)
    module.metrics = MethodType(metrics, module)
    values = inputs.sgd
    model = PyTorchModel(
        module,
        local_optimizer_create=functools.partial(
            torch.optim.SGD, momentum=values["momentum"], weight_decay=values["weight_decay"]
        ),
        central_optimizer=torch.optim.SGD(module.parameters(), lr=1.0),
    )

    class Rounds(TrainingProcessCallback):
        def after_central_iteration(self, aggregate_metrics: Any, model: Any, *, central_iteration: int) -> Any:
            if reporter is not None:
                reporter.round_ended(accuracy(model.pytorch_model, x_test, y_test), inputs.samples())
            if processes > 1 and central_iteration in (0, inputs.rounds - 1):
                # The reporter pauses here. Without this the other processes would train on, unseen by the clock, and
                # take their cores from the floor that is being measured.
                torch.distributed.barrier()
            return False, Metrics()

    if reporter is not None:
        reporter.ready(f"{processes} process{'es' if processes > 1 else ''}, 1 thread each", "pfl")
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=inputs.rounds,
            evaluation_frequency=inputs.rounds + 1,
            train_cohort_size=inputs["cohort"],
            val_cohort_size=None,
        ),
        backend=SimulatedBackend(training_data=data, val_data=data, postprocessors=[WeightByDatapoints()]),
        model=model,
        model_train_params=NNTrainHyperParams(
            local_batch_size=inputs["batch_size"],
            local_num_epochs=inputs["epochs"],
            local_learning_rate=values["lr"],
        ),
        model_eval_params=NNEvalHyperParams(local_batch_size=None),
        callbacks=[Rounds()],
        send_metrics_to_platform=False,
    )


def in_several_processes(processes: int) -> None:
    """Start again under PyTorch's launcher, which pfl knows."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    os.execv(sys.executable, [sys.executable, *launcher, *sys.argv])


if __name__ == "__main__":
    given = read_inputs(sys.argv[1])
    if given["device"] == "cpu":
        os.environ["PFL_PYTORCH_DEVICE"] = "cpu"
        if given["cores"] > 1 and "TORCHELASTIC_RUN_ID" not in os.environ:
            in_several_processes(min(given["cores"], given["cohort"]))
    telling = Reporter(given) if os.environ.get("RANK", "0") == "0" else None
    run(given, telling)
    if telling is not None:
        telling.done()
