"""Ratios, targets, tables and JSON from canned rows whose numbers can be worked out in the head."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from fedvls.bench.display import numbers_of, print_report, settings
from fedvls.bench.report import Report, WorkloadFacts
from fedvls.bench.rows import Measurement, Row, fastest, ratio
from fedvls.bench.targets import TARGETS
from fedvls.bench.workloads import get_workload
from fedvls.runs.files import to_json


def measurement(rate: float, floor: float | None = 100_000, **values: object) -> Measurement:
    """Ten seconds at this many samples per second."""
    known = {"samples": int(10 * rate), "seconds": 10.0, "train_seconds": None, "accuracy": 0.725, "rounds": 2}
    floors = {"floors": () if floor is None else (floor, floor), "processor_share": 1.0}
    return Measurement(**{**known, **floors, "peak_memory": 600_000_000, **values})


def canned(program: str, kind: str, method: str, rate: float | None, **values: object) -> Row:
    where = {"workload": "mnist-mlp", "device": "cpu"}
    row = Row(program=program, kind=kind, method=method, **{**where, **values})
    return row if rate is None else row.with_measurement(measurement(rate))


@pytest.fixture
def rows() -> list[Row]:
    return [
        canned("DataLoader loop", "loop", "fedavg", 20_000),
        canned("fluke", "rival", "fedavg", 25_000),
        canned("pfl", "rival", "fedavg", 40_000),
        canned("flwr", "rival", "fedavg", None, reason="it cannot be installed: no network"),
        canned("sequential", "ours", "fedavg", 30_000),
        canned("parallel", "ours", "fedavg", 80_000),
        canned("DataLoader loop", "loop", "fedvls", 10_000),
        canned("parallel", "ours", "fedvls", 45_000),
    ]


@pytest.fixture
def report(rows) -> Report:
    machine = {"system": "here", "cpu": "a processor", "cores": 2, "gpu": None, "versions": {"python": "3.11"}}
    facts = WorkloadFacts(get_workload("mnist-mlp"), "real data (mnist)", 2, "0123456789abcdef")
    return Report(machine, [facts], rows)


def named(rows, program, method):
    return next(row for row in rows if (row.program, row.method) == (program, method))


def test_ratios_are_to_the_fastest_that_did_the_same_work(rows):
    ours = named(rows, "parallel", "fedavg")
    assert ratio(rows, ours, "rival") == 80_000 / 40_000
    assert ratio(rows, ours, "loop") == 80_000 / 20_000
    both = named(rows, "parallel", "fedvls")
    assert ratio(rows, both, "rival") is None  # no rival has FedVLS
    assert ratio(rows, both, "loop") == 4.5


def test_the_median_of_repetitions_counts():
    row = canned("parallel", "ours", "fedavg", 10_000)
    for value in (50_000, 20_000):
        row = row.with_measurement(measurement(value))
    assert row.rate == 20_000


def test_a_row_without_measurement_is_never_the_fastest(rows):
    assert fastest(row for row in rows if row.program == "flwr") is None


def test_a_row_says_what_was_measured(rows):
    row = named(rows, "parallel", "fedavg")
    assert numbers_of(rows, row) == ["80,000", "", "80 %", "2.00", "4.00", "72.5 %", "0.6"]


def test_a_row_that_could_not_be_measured_says_why_below_the_table(report):
    console = Console(width=300, record=True, file=io.StringIO())
    print_report(report, console)
    said = console.export_text().splitlines()
    assert said.count("not measured: flwr, fedavg: it cannot be installed: no network") == 1


@pytest.mark.parametrize(
    "values",
    [
        {"floors": (50_000, 100_000)},  # half as fast before as after
        {"computed_in_pause": 0.9},  # it trained on while it should have waited
        {"processor_share": 0.4},  # others had the cores
        {"floors": (9_000, 9_000)},  # 10,000 samples/s are more than the floor: one of the two is wrong
    ],
)
def test_a_row_measured_on_an_unsteady_machine_is_marked_and_so_are_its_targets(rows, values):
    shaky = canned("parallel", "ours", "fedvls", None).with_measurement(measurement(10_000, **values))
    assert numbers_of([shaky], shaky)[2].endswith(" ?")
    assert not numbers_of(rows, rows[-1])[2].endswith("?")
    target = next(target for target in TARGETS if target.text == "FedVLS of the GEMM floor")
    assert target.steady(rows)
    assert not target.steady([*rows, shaky])


def test_a_shaky_rival_makes_the_ratio_to_it_shaky(rows):
    shaky = canned("fluke", "rival", "fedavg", None).with_measurement(measurement(1000, processor_share=0.3))
    target = next(t for t in TARGETS if t.text == "FedAvg over the fastest rival" and t.device == "cpu")
    assert not target.steady([*rows, shaky])


def test_training_only_is_shown_where_the_program_tells_it():
    row = canned("parallel", "ours", "fedavg", None).with_measurement(measurement(1000, train_seconds=8.0))
    assert numbers_of([row], row)[1] == "1,250"


@pytest.mark.parametrize(
    ("text", "reached", "met"),
    [
        ("FedVLS over the DataLoader loop with teacher", 4.5, 0.9),  # 45,000 / 10,000 of the 5 wanted
        ("FedVLS of the GEMM floor", 45.0, 0.75),  # 45,000 of 100,000, of the 60 % wanted
        ("FedAvg of the GEMM floor", 80.0, 80 / 60),
        ("FedAvg over the fastest rival", 2.0, 1.0),
    ],
)
def test_targets_are_read_off_our_row_that_comes_furthest(rows, text, reached, met):
    target = next(target for target in TARGETS if target.text == text and target.device == "cpu")
    assert target.reached(rows) == pytest.approx(reached)
    assert target.ratio(reached) == pytest.approx(met)


def test_each_target_says_which_row_came_furthest(rows):
    """In bf16 90,000 samples/s of a floor of 300,000: more than in float32, and a smaller share."""
    short = canned("parallel", "ours", "fedavg", None, dtype="bf16").with_measurement(measurement(90_000, 300_000))
    found = {t.text: t.best([*rows, short]) for t in TARGETS if t.device == "cpu" and t.method == "fedavg"}
    told = {text: (best[0].name, best[1]) for text, best in found.items()}
    assert told["FedAvg over the fastest rival"] == ("parallel fedavg bf16", 2.25)
    assert told["FedAvg of the GEMM floor"] == ("parallel fedavg", 80.0)


def test_what_a_shorter_type_reaches_is_told_apart(rows, report):
    """80,000 and 90,000 samples/s beside a rival's 40,000, 45,000 beside the loop's 10,000."""
    short = canned("parallel", "ours", "fedavg", None, dtype="bf16").with_measurement(measurement(90_000, 300_000))
    both = Report(report.machine, report.workloads, [*rows, short])
    lines = shown(both, 120).splitlines()
    (first,) = [
        number for number, line in enumerate(lines) if "FedAvg over the fastest rival" in line and "2 x" in line
    ]
    assert lines[first].split()[-4:] == ["2", "x", "1.00", "parallel"]
    assert lines[first + 1].split() == ["2.25", "x", "1.12", "parallel", "bf16"]
    assert sum("FedVLS over the DataLoader loop" in line for line in lines) == 1
    told = {target["text"]: target for target in both.to_mapping()["targets"] if target["workload"] == "mnist-mlp"}
    over_rival = told["FedAvg over the fastest rival"]
    assert over_rival["types"] == {
        "float32": {"reached": 2.0, "by": "parallel fedavg", "ratio": 1.0},
        "bf16": {"reached": 2.25, "by": "parallel fedavg bf16", "ratio": 1.125},
    }
    assert over_rival["reached"] == 2.25
    assert told["the paper's whole run, 50 rounds"]["types"] == {}


def test_a_target_of_one_engine_is_not_met_by_another():
    work = {"device": "cuda", "workload": "cifar10-mobilenetv2"}
    rows = [canned(name, "ours", "fedvls", rate, **work) for name, rate in (("stacked", 58_000), ("graphed", 25_000))]
    named = {target.text: target for target in TARGETS}
    assert named["FedVLS, graphed"].reached(rows) == 25_000
    assert named["FedVLS, graphed"].reached(rows[:1]) is None
    assert named["FedVLS, kernels of our own"].reached(rows) == 58_000


def test_a_time_to_beat_is_met_by_being_below_it():
    """15 million samples at 2 million per second are 7.5 s: twice as good as the 15 s wanted."""
    row = canned("stacked", "ours", "fedvls", 2_000_000, device="cuda")
    target = next(target for target in TARGETS if target.unit == "s" and target.workload == "mnist-mlp")
    assert (target.reached([row]), target.ratio(7.5)) == (7.5, 2.0)


def test_the_public_run_is_stated_without_a_wish():
    """10 s for 2 rounds are 7,500 s for 1,500; of two rows the shorter run counts."""
    row = canned("graphed", "ours", "fedavg", 1000, device="cuda", workload="cifar10-pfl")
    target = next(target for target in TARGETS if target.text.startswith("1,500 rounds"))
    assert (target.reached([row]), target.ratio(7500)) == (7500, None)
    shorter = replace(row, measurements=[replace(each, seconds=each.seconds / 2) for each in row.measurements])
    assert target.best([row, shorter, row]) == (shorter, 3750)


def shown(report, width):
    out = io.StringIO()
    print_report(report, Console(file=out, width=width))
    return out.getvalue()


def test_the_tables_show_rows_targets_machine_and_versions(report):
    text = shown(report, 200)
    for part in ("real data (mnist)", "fedvls, parallel", "80,000", "not measured here", "a processor", "python 3.11"):
        assert part in text


def test_every_number_is_whole_in_80_columns(report):
    """With everything that a row can say, a GPU's memory and an unsteady machine included."""
    values = {"train_seconds": 9.0, "gpu_memory": 18_800_000_000, "processor_share": 0.5}
    wide = canned("sequential", "ours", "fedavg", None, dtype="bf16")
    wide = wide.with_measurement(measurement(1_234_567, **values))
    text = shown(Report(report.machine, report.workloads, [*report.rows, wide]), 80)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    assert "…" not in text
    # 12,345,670 samples in 9 s; the floor is 100,000, the fastest rival 40,000, the loop 20,000
    for number in (
        "sequential bf16",
        "1,234,567",
        "1,371,741",
        "1235 % ?",
        "30.86",
        "61.73",
        "72.5 %",
        "0.6",
        "18.8 GPU",
        "samples/s",
    ):
        assert number in text


def test_a_column_that_nobody_fills_is_left_out(report):
    without = Report(report.machine, report.workloads, [row for row in report.rows if row.kind != "rival"])
    tables = [shown(each, 80).split("how they ran")[0] for each in (report, without)]
    assert ["rival" in table for table in tables] == [True, False]


def test_how_programs_ran_stands_below_the_table():
    values = {"setting": "2 processes, 1 thread each"}
    rows = [canned("pfl", "rival", "fedavg", None).with_measurement(measurement(1000, **values)) for _ in range(2)]
    assert settings(rows) == ["pfl: 2 processes, 1 thread each"]


def test_json_holds_everything_and_is_strict(report):
    loaded = json.loads(to_json(report.to_mapping()))
    assert loaded.keys() == {"schema", "machine", "workloads", "rows", "targets"}
    assert loaded["schema"] == 1
    row = loaded["rows"][5]
    assert row.keys() == {
        *("workload", "program", "kind", "method", "device", "dtype", "reason", "setting"),
        *("rate", "train_rate", "share_of_floor", "floor", "accuracy", "peak_memory", "gpu_memory"),
        *("steady", "processor_share"),
        *("over_fastest_rival", "over_loop", "measurements"),
    }
    assert (row["rate"], row["over_fastest_rival"]) == (80_000, 2.0)
    assert loaded["rows"][3]["rate"] is None
    assert loaded["rows"][3]["reason"].startswith("it cannot be installed")
    assert loaded["workloads"][0]["timed_rounds"] == 2
    assert {target["text"] for target in loaded["targets"]} == {target.text for target in TARGETS}
