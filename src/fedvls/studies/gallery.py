"""Every kind of figure, drawn from the demo's runs."""

from __future__ import annotations

from pathlib import Path

from ..report.bundle import collect_some
from ..report.figures import KINDS, draw
from ..report.figures.view import view_of
from ..runs.store import find_runs

HEAD = """# Gallery

Every figure that `fedvls plot` draws, from the runs of `fedvls demo`. `make gallery` draws this page again.
The same numbers are in the interactive [report](report.md).
"""


def write_gallery(runs: Path, folder: Path) -> Path:
    """`gallery.md` and one image per kind under `images/`."""
    view = view_of(collect_some(find_runs([runs])))
    parts = [HEAD]
    for kind in KINDS.values():
        image = draw(kind, view, folder / "images" / f"gallery-{kind.name}.png")
        sentence = kind.summary
        parts.append(
            f"## {kind.name}\n\n{sentence}\n\n![{sentence}](images/{image.name})\n\n"
            f"```sh\nfedvls plot {kind.name} demo/runs -o {kind.name}.pdf\n```\n"
        )
    page = folder / "gallery.md"
    page.write_text("\n".join(parts), encoding="utf-8")
    return page
