"""FedAvg with fluke (fluke-fl): its server, its clients and its data loader, in one process."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import time
from types import ModuleType
from typing import Any

import torch
from shared import Inputs, Reporter, accuracy, read_inputs, torch_device


class _TorchvisionStub(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """An empty torchvision: fluke imports it for data sets and models that are not used here, and the build that
    pip finds does not always fit the PyTorch that is there."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        if name.partition(".")[0] == "torchvision":
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> ModuleType:
        return _Empty(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""


class _Empty(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def without_torchvision() -> None:
    """Put the stand-in in torchvision's place, whether that could be imported or not."""
    sys.meta_path.insert(0, _TorchvisionStub())


def faster_threads(inputs: Inputs, seconds: float = 1.0) -> int:
    """One thread or one per core, whichever trains this model faster right now: on a busy machine it is one."""
    x, y = (part[: inputs["batch_size"]] for part in inputs.train())
    model = inputs.model()

    def steps(threads: int) -> int:
        torch.set_num_threads(threads)
        done, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            torch.nn.functional.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
            done += 1
        return done

    return max((1, int(inputs["cores"])), key=steps)


def run(inputs: Inputs, reporter: Reporter) -> None:
    """Train; every round ends with the common evaluation instead of fluke's own, which computes more than accuracy."""
    from fluke import DDict, FlukeENV
    from fluke.algorithms.fedavg import FedAVG
    from fluke.client import Client
    from fluke.config import OptimizerConfigurator
    from fluke.data import FastDataLoader
    from fluke.server import Server
    from fluke.utils import FederationObserver, ServerObserver

    threads = faster_threads(inputs)
    torch.set_num_threads(threads)
    environment = FlukeENV()
    environment.set_device(inputs["device"])
    environment.set_eval_cfg(pre_fit=False, post_fit=False, locals=False, server=False)

    x, y = inputs.train()
    x_test, y_test = inputs.test()
    values = inputs.sgd
    optimizer = OptimizerConfigurator(DDict(name=torch.optim.SGD, **values), DDict(name="StepLR", step_size=1, gamma=1))
    clients = [
        Client(
            index=index,
            train_set=FastDataLoader(
                x[own],
                y[own],
                num_labels=inputs["classes"],
                batch_size=inputs["batch_size"],
                shuffle=True,
                skip_singleton=False,
            ),
            test_set=None,
            optimizer_cfg=optimizer,
            loss_fn=torch.nn.CrossEntropyLoss(),
            local_epochs=inputs["epochs"],
            persistency=False,  # a fresh optimizer in every round
        )
        for index, own in enumerate(inputs.positions)
    ]
    server = Server(model=inputs.model(), test_set=None, clients=clients, weighted=True)

    class Rounds(ServerObserver, FederationObserver):
        def selected_clients(self, round: int, clients: Any) -> None:
            self.cohort = [client.index for client in clients]

        def end_round(self, round: int) -> None:
            model = server.model.to(torch_device(inputs["device"]))
            reporter.round_ended(accuracy(model, x_test, y_test), inputs.samples(self.cohort))
            server.model.cpu()

    algorithm = FedAVG(len(clients), None, {}, clients=clients, server=server)
    algorithm.set_callbacks([Rounds()])
    reporter.ready(f"1 process, {threads} thread{'s' if threads > 1 else ''}", "fluke-fl")
    algorithm.run(n_rounds=inputs.rounds, eligible_perc=inputs["cohort"] / inputs["clients"])


if __name__ == "__main__":
    given = read_inputs(sys.argv[1])
    telling = Reporter(given)
    without_torchvision()
    run(given, telling)
    telling.done()
