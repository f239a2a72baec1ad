"""One page that holds its data, styles and program: it opens from a file, offline, and sends nothing anywhere."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import UsageError
from ..runs.files import write_atomically
from ..runs.store import RunDirectory
from .bundle import Bundle, collect_some
from .palette import DASHES, css

SCRIPTS = (
    *("dom", "numbers", "state", "marks", "lines", "grid", "table"),
    *("curves", "partition", "local", "confusion", "drift", "speed", "tables", "header", "main"),
)


def build_page(bundle: Bundle, title: str, live: bool = False) -> str:
    """The whole page as text; a live one also asks its own server for new rounds."""
    styles = _filled(_part("style.css"), {}) + "\n" + css()
    program = "\n".join(_part(f"{name}.js") for name in (*SCRIPTS, *(["live"] if live else [])))
    script = "'use strict';\n(() => {\n" + _filled(program, {"dashes": json.dumps(DASHES)}) + "\n})();"
    return _filled(
        _part("page.html"),
        {
            "policy": content_policy(styles, script, live),
            "version": html.escape(__version__),
            "title": html.escape(title),
            "styles": styles,
            "script": script,
            "data": embedded(bundle),
        },
    )


def embedded(value: Any) -> str:
    """JSON that is safe inside a <script>: nothing in it can end the element or a line of JavaScript."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    risky = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
    return re.sub("[<>&\u2028\u2029]", lambda found: risky[found[0]], text)


def content_policy(styles: str, script: str, live: bool) -> str:
    """What the browser may do: run this script and these styles by their hash, and nothing else."""
    allowed = {
        "default-src": "'none'",
        "script-src": _hash(script),
        "style-src": _hash(styles),
        "img-src": "data:",
        "connect-src": "'self'" if live else "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{key} {value}" for key, value in allowed.items())


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _part(name: str) -> str:
    return files(__package__).joinpath("page", name).read_text(encoding="utf-8")


def _filled(template: str, values: dict[str, str]) -> str:
    """Every {{name}} replaced in one pass, so that a value that holds braces stays what it is."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], template)


def write_page(runs: Sequence[RunDirectory], path: Path, title: str | None = None) -> Path:
    """Collect the runs and write their page."""
    bundle = collect_some(runs)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, build_page(bundle, title or heading(bundle)).encode())
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    return path


def heading(bundle: Bundle) -> str:
    """The setting, where there is one only."""
    settings = bundle["settings"]
    if len(settings) == 1:
        return str(settings[0])
    return f"{len(bundle['runs'])} runs in {len(settings)} settings" if settings else "Runs"
