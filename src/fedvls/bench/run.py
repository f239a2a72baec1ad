"""Runs a plan: every row in its own process, bracketed by the floor, repetitions in turn."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from ..method import get_method
from .data import workload_data
from .environments import RIVALS, interpreter
from .floor import Floor, FloorMeter
from .inputs import workload_split, write_inputs, write_settings
from .plan import Plan
from .report import Report, WorkloadFacts, machine
from .rows import Measurement, Row
from .watch import Event, NotRun, measure
from .workloads import Workload

FACTORS = {"float64": "float64", "bf16": "bfloat16"}
"""What a run of this dtype multiplies, where it is not float32."""


class Watcher:
    """Told what happens; override what you want to show."""

    def on_plan(self, rounds: int) -> None:
        """So many rounds are to come, over all rows."""

    def on_note(self, text: str) -> None:
        """Something takes a while."""

    def on_row(self, row: Row, repetition: int, rounds: int) -> None:
        """A row begins."""

    def on_event(self, row: Row, event: Event) -> None:
        """The row's program said something."""

    def on_row_end(self, row: Row) -> None:
        """A row ended; its reason says why, if it was not measured."""


def run_plan(plan: Plan, watcher: Watcher | None = None) -> Report:
    """Measure everything the plan asks for."""
    told = watcher or Watcher()
    chosen = plan.chosen()
    told.on_plan(sum(len(plan.rows(w)) * plan.repeat * (rounds + 1) for w, rounds in chosen))
    facts, rows = [], list[Row]()
    for workload, rounds in chosen:
        with tempfile.TemporaryDirectory(prefix="fedvls-bench-") as folder:
            told.on_note(f"{workload.name}: preparing data, partition and start weights")
            data, about = workload_data(workload, plan.dataset, plan.data_dir, plan.seed)
            split = workload_split(workload, data, plan.seed)
            write_inputs(Path(folder), workload, data, split, plan.seed)
            del data
            facts.append(WorkloadFacts(workload, about, rounds, split.fingerprint))
            rows += _measured(plan, workload, rounds, Path(folder), told)
    return Report(machine(plan), facts, rows)


def _measured(plan: Plan, workload: Workload, rounds: int, folder: Path, told: Watcher) -> list[Row]:
    rows = plan.rows(workload)
    with _meters(plan, workload) as meters:
        for repetition in range(plan.repeat):
            for number, row in enumerate(rows):
                told.on_row(row, repetition, rounds)
                if not row.reason:
                    try:
                        rows[number] = row.with_measurement(_one(plan, workload, row, rounds, folder, meters, told))
                    except NotRun as reason:
                        rows[number] = replace(row, reason=" ".join(str(reason).split()))
                told.on_row_end(rows[number])
    return rows


def _one(
    plan: Plan,
    workload: Workload,
    row: Row,
    rounds: int,
    folder: Path,
    meters: dict[tuple[str, str], FloorMeter],
    told: Watcher,
) -> Measurement:
    python = None
    if row.kind == "rival":
        if row.program not in workload.rivals:
            raise NotRun("this workload is not written for it: its model and augmentation are ours alone")
        python = interpreter(RIVALS[row.program], plan.cache.expanduser(), told.on_note)
    choices = {"engine": row.program, "method": row.method, "device": row.device, "dtype": row.dtype}
    settings = write_settings(folder, workload, rounds=rounds, cores=plan.cores, seed=plan.seed, **choices)
    meter = meters.get((row.method, row.dtype))
    return measure(
        plan.command(row, settings, python),
        floor=None if meter is None else lambda: meter.measure(plan.floor_seconds),
        on_event=lambda event: told.on_event(row, event),
        limit=plan.limit,
        # Threads are each program's own choice, from one; a rival must not see our modules.
        environment={"OMP_NUM_THREADS": "1"} | ({"PYTHONPATH": ""} if row.kind == "rival" else {}),
    )


@contextmanager
def _meters(plan: Plan, workload: Workload) -> Iterator[dict[tuple[str, str], FloorMeter]]:
    """A meter for every method and type of factors, on a CPU and where the workload has a floor."""
    with ExitStack() as stack:
        meters = {}
        if plan.device == "cpu" and workload.gemm_widths and plan.floor_seconds > 0:
            for method, dtype in dict.fromkeys((row.method, row.dtype) for row in plan.rows(workload)):
                teacher = "teacher_logits" in get_method(method).needs
                floor = Floor(workload.gemm_widths, workload.batch_size, teacher, FACTORS.get(dtype, "float32"))
                meters[method, dtype] = stack.enter_context(FloorMeter(floor, plan.cores))
        yield meters
