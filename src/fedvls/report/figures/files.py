"""matplotlib, only when a figure is drawn; the look of a two-column paper; files."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...errors import UsageError

ENDINGS = (".png", ".svg", ".pdf")
# Inches: one column and the whole page of the usual two-column paper.
SCREEN = {"savefig.dpi": 150, "axes.spines.top": False, "axes.spines.right": False}
WIDTHS = {"column": 3.3, "page": 7.0}
PAPER = {
    "font.family": ["STIXGeneral", "DejaVu Sans"],  # fits Times; the second has the letters the first lacks
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "figure.titlesize": 8.5,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.linewidth": 1.1,
    "lines.markersize": 3.5,
    "hatch.linewidth": 0.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "savefig.dpi": 300,
    "savefig.pad_inches": 0.02,
    "pdf.fonttype": 42,  # outlines that publishers accept
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "fedvls",  # the same figure is the same file
}


def pyplot() -> Any:
    """matplotlib without a window."""
    try:
        import matplotlib
    except ImportError:
        raise UsageError("figures need matplotlib: install fedvls[plot]") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


@contextmanager
def style(look: Mapping[str, Any]) -> Iterator[Any]:
    """pyplot with this look; names are text and never formulas."""
    plots = pyplot()
    with plots.rc_context({**look, "text.parse_math": False}), warnings.catch_warnings():
        # A letter that no installed font has is drawn as a box; that is not worth a warning per letter.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
        yield plots


def check_ending(path: Path) -> None:
    """Refuse a file format that does not exist before the work is done."""
    if path.suffix not in ENDINGS:
        raise UsageError(f"cannot write a figure to {path}: its name must end in {', '.join(ENDINGS)}")


def save(figure: Any, path: Path) -> Path:
    """Write the figure; the ending decides the format."""
    check_ending(path)
    plots = pyplot()
    undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, bbox_inches="tight", metadata=undated)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    finally:
        plots.close(figure)
    return path
