"""What a round costs as clients grow in number: time per sampled client, start-up time and peak memory.

    python benchmarks/scale.py                                           # two tables
    python benchmarks/scale.py --json scale.json --chart docs/images/scale.png
    python benchmarks/scale.py --draw scale.json --chart docs/images/scale.png   # the chart of earlier measurements

Every point is a process of its own with the whole generated data set (MNIST's shape), whatever its number of clients,
so that what grows is what clients cost; a client always holds the same number of samples. The points stay alive and
run one round each in turn, so that other work on the machine hits all of them.

Time is the median round's, with evaluation, metrics and checkpoint, and its ratio the median of the ratios to the first
point's round of the same turn. Processor time is the mean round's over all processes, which other work disturbs less.
Start-up is imports, checks, partition, header and all else before round 1, without generating the data. Memory is that
of the process and its workers, shared pages counted once and libraries left out, sampled during a last round, which
also evaluates every client's model and is not timed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

WARM_UP = 2


@dataclass
class Point:
    """One setting and what was measured there."""

    clients: int
    cohort: int
    startup_seconds: float = 0.0
    round_seconds: list[float] = field(default_factory=list)
    processor_seconds: float = 0.0
    peak_mib: float = 0.0

    @property
    def per_client(self) -> float:
        """Seconds of a round per sampled client."""
        return statistics.median(self.round_seconds) / self.cohort

    @property
    def processor_per_client(self) -> float:
        """Seconds of processor time per sampled client."""
        return self.processor_seconds / len(self.round_seconds) / self.cohort

    def ratio(self, first: Point) -> float:
        """Time per sampled client, relative to another point's in the same turn."""
        pairs = zip(self.round_seconds, first.round_seconds, strict=True)
        return statistics.median(mine / theirs for mine, theirs in pairs) * first.cohort / self.cohort


class Driven:
    """A point's process, which runs a round whenever it is told to."""

    def __init__(self, point: Point, options: argparse.Namespace) -> None:
        self.point = point
        command = [sys.executable, __file__, "--child", json.dumps([point.clients, point.cohort])]
        for name in ("most", "samples", "test_samples", "epochs", "batch_size", "rounds"):
            command += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
        command += ["--method", options.method, "--engine", options.engine]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        point.startup_seconds = self.answer()

    def answer(self) -> float:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"the process of {self.point.clients} clients ended: exit code {self.process.wait()}")
        return float(line)

    def tell(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def round(self) -> float:
        """Seconds of one round, until all of it is on disk."""
        began = time.perf_counter()
        self.tell()
        self.answer()
        return time.perf_counter() - began

    def peak(self) -> float:
        """Largest memory in MiB while the last round runs."""
        self.tell()
        largest = 0.0
        while self.process.poll() is None:
            largest = max(largest, memory_of_tree(self.process.pid))
            time.sleep(0.02)
        if self.process.returncode:
            sys.exit(f"the process of {self.point.clients} clients ended: exit code {self.process.returncode}")
        return largest


def tree(pid: int) -> list[int]:
    """A process and its children; nothing if it has ended."""
    try:
        return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    except OSError:
        return []


def memory_of_tree(pid: int) -> float:
    """MiB of a process and its children; a page that several of them share counts once in all.

    Without the pages of libraries: how many of those are this process's own depends on who else runs PyTorch.
    """
    total = 0.0
    for member in tree(pid):
        try:
            rows = Path(f"/proc/{member}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue  # it has just ended
        total += sum(int(row.split()[1]) for row in rows if row.startswith(("Pss_Anon:", "Pss_Shmem:"))) / 1024
    return total


def processor_of_tree(pid: int) -> float:
    """Seconds of processor time that a process and its children have used."""
    ticks = 0
    for member in tree(pid):
        fields = Path(f"/proc/{member}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def child(options: argparse.Namespace) -> None:
    """The process of a point: waits for a word before every round, and answers after it."""
    began = time.perf_counter()
    import numpy as np

    import fedvls

    imported = time.perf_counter() - began
    clients, cohort = json.loads(options.child)
    random = np.random.RandomState(0)
    total = options.most * options.samples
    shape = (1, 28, 28)
    x, y = random.randint(0, 256, (total, *shape), dtype=np.uint8), random.randint(0, 10, total)
    x_test, y_test = x[: options.test_samples].copy(), y[: options.test_samples]
    skewed = fedvls.get_partition("dirichlet-client", beta=0.5)

    def first_samples(
        labels: np.ndarray, classes: int, number: int, random: np.random.RandomState
    ) -> tuple[list[np.ndarray], int]:
        """Clients of equal size and skewed labels, made of as many samples as they need."""
        return skewed.assign(labels[: number * options.samples], classes, number, random)

    class Turns(fedvls.Callback):
        def on_start(self, header: dict[str, Any], rounds: int, done: int) -> None:
            self.reply(imported + time.perf_counter() - ready)

        def on_round(self, record: dict[str, Any], timing: dict[str, Any]) -> None:
            if record["round"] < WARM_UP + options.rounds + 1:
                self.reply(timing["seconds"])

        def reply(self, seconds: float) -> None:
            print(seconds, flush=True)
            sys.stdin.readline()

    ready = time.perf_counter()
    data = fedvls.FederatedData.from_arrays(x, y, x_test, y_test, name="generated")
    partition = fedvls.Partition(first_samples, name="dirichlet-client")
    federation = fedvls.Federation(data, partition=partition, clients=clients, device="cpu", engine=options.engine)
    with tempfile.TemporaryDirectory() as folder:
        federation.run(
            options.method,
            WARM_UP + options.rounds + 1,
            options.epochs,
            batch_size=options.batch_size,
            participation=cohort / clients,
            local_every=10**6,
            out=Path(folder) / "run",
            callbacks=[Turns()],
        )


def measure(points: list[Point], options: argparse.Namespace) -> None:
    """Fill the points in, a round of each in turn."""
    driven = []
    for point in points:
        say(f"starting {point.clients:,} clients, cohort {point.cohort}")
        driven.append(Driven(point, options))
    for turn in range(WARM_UP + options.rounds):
        say(f"round {turn + 1} of {WARM_UP + options.rounds}, {len(points)} points")
        for one in driven:
            used = processor_of_tree(one.process.pid)
            seconds = one.round()
            if turn >= WARM_UP:
                one.point.round_seconds.append(seconds)
                one.point.processor_seconds += processor_of_tree(one.process.pid) - used
    for one in driven:
        say(f"memory of {one.point.clients:,} clients, cohort {one.point.cohort}")
        one.point.peak_mib = one.peak()
    say("")


def say(text: str) -> None:
    """Progress: in a terminal, one line that is written over."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)


def table(points: list[Point]) -> str:
    """The measurements as a Markdown table, with ratios to the first point."""
    first = points[0]
    lines = [
        "| clients | cohort | start-up | round | per sampled client | ratio | processor time | ratio | peak memory |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for p in points:
        cells = [f"{p.clients:,}", str(p.cohort), f"{p.startup_seconds:.1f} s"]
        cells += [f"{statistics.median(p.round_seconds) * 1e3:.0f} ms"]
        cells += [f"{p.per_client * 1e3:.2f} ms", f"{p.ratio(first):.2f}"]
        cells += [
            f"{p.processor_per_client * 1e3:.2f} ms",
            f"{p.processor_per_client / first.processor_per_client:.2f}",
        ]
        lines.append("| " + " | ".join([*cells, f"{p.peak_mib:,.0f} MiB"]) + " |")
    return "\n".join(lines)


def draw(by_clients: list[Point], by_cohort: list[Point], data_mib: float, path: Path) -> None:
    """Time and memory, each against the number of clients and against the size of the cohort."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes

    blue, orange, grey = "#0072b2", "#d55e00", "#666666"  # told apart by all kinds of colour vision
    most, cohort = by_clients[-1].clients, by_clients[0].cohort
    series = [
        (f"against all clients, {cohort} of them in a round", by_clients, "clients", blue, "o", "-"),
        (f"against the clients in a round, {most:,} in all", by_cohort, "cohort", orange, "s", "--"),
    ]

    def panel(axes: Axes, value: str, title: str, top: float) -> None:
        for label, points, across, colour, marker, dash in series:
            x = [getattr(p, across) for p in points]
            y = [p.processor_per_client * 1e3 if value == "time" else p.peak_mib for p in points]
            axes.plot(x, y, dash, color=colour, marker=marker, label=label, linewidth=2, markersize=7)
        axes.set_xscale("log")
        axes.set_ylim(0, top)
        axes.set_xticks(ticks := sorted({p.clients for p in by_clients} | {p.cohort for p in by_cohort}))
        axes.set_xticks([], minor=True)
        axes.set_xticklabels([f"{t:,}" for t in ticks])
        axes.set_xlabel("clients")
        axes.set_title(title, loc="left", fontsize=12)
        axes.grid(axis="y", color="#dddddd")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)

    everything = [*by_clients, *by_cohort]
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    slowest = max(p.processor_per_client for p in everything) * 1e3
    panel(left, "time", "Processor time per client in a round, ms", 1.25 * slowest)
    panel(right, "memory", "Peak memory, MiB", 1.25 * max(p.peak_mib for p in everything))
    right.axhline(data_mib, color=grey, linewidth=1.5, linestyle=":")
    right.text(most, 0.98 * data_mib, "the data set", color=grey, ha="right", va="top")
    figure.get_layout_engine().set(w_pad=0.25)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 100, 1000, 10000], help="numbers of clients")
    parser.add_argument("--cohorts", type=int, nargs="+", default=[10, 30, 100, 300], help="sizes of the cohort")
    parser.add_argument("--rounds", type=int, default=30, help="timed rounds of each point; the median counts")
    parser.add_argument("--method", default="fedavg", help="method to train with")
    parser.add_argument("--engine", default="auto", help="engine to train with")
    parser.add_argument("--samples", type=int, default=50, help="training samples of a client")
    parser.add_argument("--test-samples", type=int, default=2000, help="test samples")
    parser.add_argument("--epochs", type=int, default=5, help="local epochs")
    parser.add_argument("--batch-size", type=int, default=10, help="samples in a minibatch")
    parser.add_argument("--json", type=Path, help="write the measurements here")
    parser.add_argument("--chart", type=Path, help="draw them into this PNG")
    parser.add_argument("--draw", type=Path, help="measure nothing: draw what this JSON holds")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--most", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options)
        return
    if options.draw:
        kept = json.loads(options.draw.read_text())
        by_clients, by_cohort = ([Point(**p) for p in kept[name]] for name in ("by_clients", "by_cohort"))
        data_mib = kept["where"]["data_mib"]
    else:
        options.most = max(options.clients)
        by_clients = [Point(clients, min(options.cohorts)) for clients in options.clients]
        by_cohort = [Point(options.most, cohort) for cohort in options.cohorts]
        measure(by_clients, options)
        measure(by_cohort, options)
        data_mib = round(options.most * options.samples * 28 * 28 / 2**20, 1)
        where = {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1), "python": platform.python_version()}
        where |= {"data_mib": data_mib, "method": options.method, "engine": options.engine, "samples": options.samples}
        where |= {"epochs": options.epochs, "batch_size": options.batch_size, "test_samples": options.test_samples}
        kept = {"where": where, "by_clients": [*map(asdict, by_clients)], "by_cohort": [*map(asdict, by_cohort)]}
        if options.json:
            options.json.write_text(json.dumps(kept, indent=2) + "\n")
    print(table(by_clients), table(by_cohort), sep="\n\n")
    print("\n" + ", ".join(f"{key} {value}" for key, value in kept["where"].items()))
    if options.chart:
        draw(by_clients, by_cohort, data_mib, options.chart)


if __name__ == "__main__":
    main()
