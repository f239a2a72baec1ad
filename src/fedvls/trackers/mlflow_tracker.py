"""MLflow: parameters, metrics per round and the result. MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME say where."""

from __future__ import annotations

import os
from time import time
from typing import Any

from .base import Tracker

Values = dict[str, float]
Texts = dict[str, str]

EXPERIMENT = "fedvls"
LONGEST = 500  # of a parameter's value, which servers refuse beyond


class MlflowTracker(Tracker):
    """Speaks through MLflow's client; the record is found again after a resume."""

    name = "mlflow"
    package = "mlflow.tracking"

    def open(self, title: str, choices: dict[str, Any], done: int) -> None:
        self._client = self.client_library.MlflowClient()
        self._run = self.remembered()
        if self._run is None:
            name = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
            found = self._client.get_experiment_by_name(name)
            experiment = found.experiment_id if found else self._client.create_experiment(name)
            self._run = str(self._client.create_run(experiment, run_name=title).info.run_id)
            self.remember(self._run)
            self._batch(params={key: str(value)[:LONGEST] for key, value in choices.items()})
        self._client.update_run(self._run, status="RUNNING")

    def log(self, values: dict[str, float], round: int) -> None:
        self._batch(metrics=values, step=round)

    def close(self, summary: dict[str, float]) -> None:
        self._batch(metrics={f"result/{key}": value for key, value in summary.items()})
        self._client.set_terminated(self._run)

    def _batch(self, *, metrics: Values | None = None, params: Texts | None = None, step: int = 0) -> None:
        """One request for many values, a hundred parameters at a time."""
        from mlflow.entities import Metric, Param

        now = int(1000 * time())
        measured = [Metric(key, value, now, step) for key, value in (metrics or {}).items()]
        chosen = [Param(key, value) for key, value in (params or {}).items()]
        for first in range(0, max(len(chosen), 1), 100):
            self._client.log_batch(self._run, measured if first == 0 else [], chosen[first : first + 100])
