"""`fedvls bench`: how fast the engines are, beside a plain loop and other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import UsageError
from .options import split_list


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: fedvls bench --workload mnist-mlp --rivals fluke,flwr,pfl --json bench.json")(bench)


def bench(
    workload: Annotated[
        str, typer.Option(help="mnist-mlp, cifar10-mobilenetv2, cifar10-pfl; several separated by commas.")
    ] = "mnist-mlp",
    methods: Annotated[str, typer.Option(help="fedavg, fedvls or both.")] = "fedavg,fedvls",
    engines: Annotated[str, typer.Option(help="Engines separated by commas, or all.")] = "all",
    rivals: Annotated[
        str, typer.Option(help="fluke, flwr, pfl, all or none; each is installed in an environment of its own.")
    ] = "none",
    loop: Annotated[bool, typer.Option(help="Measure the DataLoader-style loop too.")] = True,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    dtype: Annotated[str, typer.Option(help="Of our rows; several separated by commas.")] = "float32",
    rounds: Annotated[int | None, typer.Option(help="Timed rounds (default: the workload's).")] = None,
    repeat: Annotated[int, typer.Option(help="Measure every row so often, in turn; the median counts.")] = 1,
    samples: Annotated[int | None, typer.Option(help="Train on fewer samples, for a quick look.")] = None,
    dataset: Annotated[
        str | None, typer.Option(help="A name or path in place of the workload's data set, or generated.")
    ] = None,
    data_dir: Annotated[str | None, typer.Option(help="Folder with the data sets' files.")] = None,
    cache: Annotated[Path, typer.Option(help="Folder for the rivals' environments.")] = Path("~/.cache/fedvls/bench"),
    floor_seconds: Annotated[
        float, typer.Option(help="Seconds of the GEMM floor before and after each row; 0: none.")
    ] = 1.0,
    json: Annotated[Path | None, typer.Option(help="Write everything that was measured to this file.")] = None,
) -> None:
    """Measure samples per second of every engine, of a plain loop and of other programs, on the same work."""
    from ..bench.display import display, print_report
    from ..bench.environments import RIVALS
    from ..bench.plan import Plan
    from ..bench.run import run_plan
    from ..numerics import resolve_device
    from ..runs.files import to_json

    if json is not None and not json.absolute().parent.is_dir():
        raise UsageError(f"--json {json}: the folder {json.absolute().parent} does not exist")
    every = {"all": list(RIVALS), "none": list[str]()}
    plan = Plan(
        workloads=split_list(workload, "--workload"),
        methods=split_list(methods, "--methods"),
        engines=() if engines == "all" else split_list(engines, "--engines"),
        rivals=every[rivals] if rivals in every else split_list(rivals, "--rivals"),
        loop=loop,
        device=resolve_device(device).type,
        dtypes=split_list(dtype, "--dtype"),
        rounds=rounds,
        repeat=repeat,
        samples=samples,
        dataset=dataset,
        data_dir=data_dir,
        cache=cache,
        floor_seconds=floor_seconds,
    )
    with display() as watcher:
        report = run_plan(plan, watcher)
    if json is not None:
        json.write_text(to_json(report.to_mapping(), indent=2) + "\n", encoding="utf-8")
    print_report(report)
