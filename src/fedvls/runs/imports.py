"""Python files that register a user's own methods, models or data sets."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from ..errors import UsageError


def import_files(paths: Sequence[str]) -> None:
    """Run each file once, under a module name made from its path."""
    for text in paths:
        path = Path(text).resolve()
        name = f"fedvls_import_{path.stem}_{abs(hash(str(path)))}"
        if name in sys.modules:
            continue
        spec = importlib.util.spec_from_file_location(name, path) if path.is_file() else None
        if spec is None or spec.loader is None:
            raise UsageError(f"cannot import {text}: it is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[name]
            raise UsageError(f"importing {text} failed: {type(error).__name__}: {error}") from error
