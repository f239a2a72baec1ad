"""Colours, dashes and markers: one list for the page, the figures and the terminal. Nothing is told by colour alone."""

from __future__ import annotations

# Okabe and Ito's colours, darkened for white paper and lightened for a dark screen until each stands out from its
# ground by 3:1 or more. A ninth method takes the first colour again with another dash and marker.
LIGHT = ("#0068a8", "#c14f00", "#00805c", "#b04f8b", "#856a00", "#2f8fc4", "#6a4fc0", "#555b63")
DARK = ("#5ab4f0", "#ff9457", "#3fcf9f", "#ee9bcb", "#dcc04a", "#9bd6fa", "#b7a3ff", "#b6bcc6")

# In points of the line's width 1; () is a solid line.
DASHES: tuple[tuple[float, ...], ...] = ((), (6, 2), (2, 1.6), (7, 2, 1.5, 2), (4, 1.5), (1, 1.5), (10, 2.5))
# matplotlib's letters; the page draws the same shapes.
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def css() -> str:
    """The colours as CSS variables for both themes."""
    light, dark = (" ".join(f"--c{k}: {colour};" for k, colour in enumerate(colours)) for colours in (LIGHT, DARK))
    rules = [
        f":root {{ {light} }}",
        f"@media (prefers-color-scheme: dark) {{ :root:not([data-theme='light']) {{ {dark} }} }}",
        f":root[data-theme='dark'] {{ {dark} }}",
    ]
    rules += [f".c{k} {{ --mark: var(--c{k}); }}" for k in range(len(LIGHT))]
    return "\n".join(rules)
