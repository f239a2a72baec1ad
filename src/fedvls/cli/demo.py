"""`fedvls demo`: what vacant classes are, in under a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: fedvls demo --out demo")(demo)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the runs, the figure and the report.")] = Path("demo"),
    gallery: Annotated[
        Path | None, typer.Option(help="Also draw every kind of figure into this folder, with a page that shows them.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """Train on digits with strongly skewed labels; see what each method does to classes a client has never seen."""
    from ..runs.files import to_json
    from ..studies.demo import SETTING, run_demo
    from .progress import Bar, progress_display

    with progress_display() as progress:
        outcome = run_demo(out, lambda name: Bar(progress, name))
    if gallery:
        from ..studies.gallery import write_gallery

        write_gallery(Path(outcome["runs"]), gallery)
    if json:
        typer.echo(to_json(outcome, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(SETTING, highlight=False)
    table = Table(title="accuracy in %, measured just now", title_justify="left")
    table.add_column("method")
    for head in ("vacant classes", "minority classes", "majority classes", "global, best", "global, last"):
        table.add_column(head, justify="right")
    for row in outcome["methods"]:
        effect = [f"{100 * row['before'][g]:.0f} -> {100 * row['after'][g]:.0f}" for g in row["before"]]
        table.add_row(row["title"], *effect, f"{100 * row['best']:.1f}", f"{100 * row['last']:.1f}")
    console.print(table)
    console.print(
        "a -> b: accuracy of the shared global model, then of the clients' models, each trained on its own data.",
        highlight=False,
    )
    console.print(outcome["reading"], highlight=False)
    console.print(f"figure: {outcome['figure']}", highlight=False, soft_wrap=True)
    console.print(f"report: {outcome['report']}  (open it in a browser)", highlight=False, soft_wrap=True)
    console.print(
        f"runs:   {outcome['runs']}  (look at them with: fedvls show {outcome['runs']})",
        highlight=False,
        soft_wrap=True,
    )
