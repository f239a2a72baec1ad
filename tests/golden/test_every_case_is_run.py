"""No worked case lies in the file unused."""

import importlib.util
from pathlib import Path

ELSEWHERE = {"partition"}
"""Run by tests/partition."""


def golden_marks():
    """Arguments of every golden mark in this folder, whatever part of the tests was asked for."""
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        if path.name == Path(__file__).name:
            continue
        spec = importlib.util.spec_from_file_location(f"golden_{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, value in vars(module).items():
            if name.startswith("test_"):
                yield from (mark.args for mark in getattr(value, "pytestmark", ()) if mark.name == "golden")


def test_every_case_of_every_method_there_is_has_a_test(worked):
    keys, named = worked
    run = [named(*arguments) for arguments in golden_marks()]
    assert all(run), "a golden mark names no case"
    expected = {key for key in keys if key[0] not in ELSEWHERE}
    assert {key for group in run for key in group} == expected
