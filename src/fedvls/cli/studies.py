"""What `reproduce` and `sweep` share: where jobs are run, and what is told meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..errors import UsageError
from .options import split_list

if TYPE_CHECKING:
    from ..studies.execute import Backend
    from ..studies.jobs import Job

Tell = Callable[["Job", str | None], None]


class Place(StrEnum):
    """Where jobs run."""

    here = "here"
    ray = "ray"


Workers = Annotated[int | None, typer.Option(help="Runs at a time (default: one per core; 1 on a GPU).")]
On = Annotated[Place, typer.Option(help="here: processes of this machine; ray: a Ray cluster.")]
RayAddress = Annotated[
    str | None, typer.Option(help="Address of a running Ray cluster (default: a private one on this machine).")
]
Format = Annotated[str, typer.Option(help="table, markdown, latex, csv or json.")]


def whole_numbers(text: str, what: str) -> list[int]:
    """`0,1,2` as numbers."""
    found = split_list(text, what)
    for item in found:
        if not item.isdigit():
            raise UsageError(f"{what}: {item!r} is not a whole number")
    return [int(item) for item in found]


@contextmanager
def backend(
    jobs: Sequence[Job], root: Path, workers: int | None, on: Place, ray_address: str | None
) -> Iterator[tuple[Backend, Tell]]:
    """What runs the jobs that are not finished, and what tells that one ended, on standard error."""
    from ..studies.execute import here
    from ..studies.on_ray import on_ray
    from ..studies.processes import processes
    from .progress import Bar, progress_display

    if workers is not None and workers < 1:
        raise UsageError(f"--workers {workers} must be >= 1")
    if ray_address is not None and on is not Place.ray:
        raise UsageError("--ray-address needs --on ray")
    unfinished = [job for job in jobs if not job.is_finished(root)]
    if len(jobs) > 1:
        typer.echo(
            f"{len(jobs)} runs in {root}: {len(jobs) - len(unfinished)} finished, {len(unfinished)} to do", err=True
        )
    ended = 0

    def tell(job: Job, error: str | None) -> None:
        nonlocal ended
        ended += 1
        outcome = "done" if error is None else f"failed: {error.strip().splitlines()[-1]}"
        typer.echo(f"{ended}/{len(unfinished)} {job.name} {outcome}", err=True)

    if on is Place.ray:
        yield on_ray(ray_address, workers), tell
        return
    count = min(_default_workers(unfinished) if workers is None else workers, len(unfinished))
    if count > 1:
        yield processes(count), tell
        return
    with progress_display() as progress:
        yield here(lambda job: Bar(progress, job.name)), lambda job, error: tell(job, error) if error else None


def _default_workers(jobs: Sequence[Job]) -> int:
    """One per core; one in all on a GPU, where runs would share its memory."""
    from ..engines.parallel import cores
    from ..numerics import resolve_device

    if any(resolve_device(device).type == "cuda" for device in {job.config.device for job in jobs}):
        return 1
    return cores()


def check_format(form: str) -> None:
    from ..studies.render import FORMATS

    if form not in FORMATS:
        raise UsageError(f"--format {form!r} is not one of {', '.join(FORMATS)}")


def report_failures(failures: Sequence[str]) -> None:
    """Every reason once, and exit code 1: there is a table, but not all of it."""
    for reason in dict.fromkeys(failures):
        typer.echo(f"failed: {reason.strip().splitlines()[-1]}", err=True)
    if failures:
        raise typer.Exit(1)


def print_grid(heads: Sequence[str], lines: Sequence[Sequence[str]], left: int, title: str | None = None) -> None:
    """A table on the terminal; the first `left` columns are text, the others numbers."""
    from rich.console import Console
    from rich.text import Text

    from ..terminal import number_table

    table = number_table(title)
    for number, head in enumerate(heads):
        justify: Literal["left", "right"] = "left" if number < left else "right"
        table.add_column(Text(head), justify=justify, overflow="fold", no_wrap=number == 0)
    for line in lines:
        table.add_row(*map(Text, line))
    Console().print(table)
