"""The ServerApp: Flower starts it once per run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from torch import nn

from ..data import FederatedData, load_dataset
from ..errors import FedvlsError
from ..method import Method
from ..runs.config import AT_SITES
from .deployment import Deployment, Wrap
from .settings import Plan, read_plan
from .site_data import load_path

TestData = FederatedData | Callable[[], FederatedData] | str | None


def server_app(
    method: Method | str | None = None,
    model: nn.Module | str | Mapping[str, Any] | None = None,
    data: TestData = None,
    *,
    wrap: Wrap | None = None,
    **choices: Any,
) -> ServerApp:
    """A ServerApp for the sites that run `client_app` with the same method and model.

    data: what the server evaluates on (only its test part is used): `FederatedData`, a function that returns it, a
    name or a path; by default `server.test_data` of the run's configuration.
    wrap: a function of the strategy that returns the one to run, e.g. one of Flower's privacy wrappers.
    choices: other keys of the configuration that the run does not set.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        with _logged_by_flower() as log:
            try:
                plan = read_plan(context.run_config, method, model, **choices)
                Deployment(plan, _test_data(data, plan)).run(grid, wrap)
            except FedvlsError as error:
                log.error("%s", error)
                raise

    return app


def _test_data(given: TestData, plan: Plan) -> FederatedData | None:
    if isinstance(given, FederatedData):
        return given
    if callable(given):
        return given()
    if plan.config.data["name"] != AT_SITES and not given and not plan.server.test_data:
        return load_dataset(**plan.config.data)
    path = given or plan.server.test_data
    return load_path(path, plan) if path else None


@contextmanager
def _logged_by_flower() -> Iterator[logging.Logger]:
    """Send this package's messages where Flower's go: to the run's log."""
    log, flower = logging.getLogger("fedvls"), logging.getLogger("flwr")
    before, added = log.level, [h for h in flower.handlers if h not in log.handlers]
    for handler in added:
        log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield log
    finally:
        log.setLevel(before)
        for handler in added:
            log.removeHandler(handler)
