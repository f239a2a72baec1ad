"""Pages whose tables are what commands print.

    python benchmarks/printed.py docs/reproduction.md           # fill them in
    python benchmarks/printed.py --check docs/reproduction.md   # exit code 1 if a page is not what the commands print

In a page, the lines between `<!-- printed -->` and `<!-- end -->` are the standard output of the `fedvls` command in
the code block above them. Commands run in the project's folder.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import re
import shlex
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from fedvls.cli import app
from fedvls.errors import FedvlsError

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(
    r"```sh\n(?P<command>fedvls [^\n]*)\n```\n\n<!-- printed -->\n(?P<said>.*?)<!-- end -->\n", re.MULTILINE | re.DOTALL
)


def filled_in(page: str, output: Callable[[str], str]) -> str:
    """The page with what every command prints."""

    def block(found: re.Match[str]) -> str:
        command = found["command"]
        return f"```sh\n{command}\n```\n\n<!-- printed -->\n\n{output(command).strip()}\n\n<!-- end -->\n"

    return BLOCK.sub(block, page)


def printed(command: str) -> str:
    """Standard output of a `fedvls` command, run in this process. The files it writes are thrown away."""
    said = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(ROOT), contextlib.redirect_stdout(said):
        try:
            app([*shlex.split(command)[1:], "--out", folder], standalone_mode=False)
        except FedvlsError as error:
            raise SystemExit(f"{command}\n{error}") from None
    return said.getvalue()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--check", action="store_true", help="change nothing")
    given = parser.parse_args()
    stale = 0
    for path in given.pages:
        before = path.read_text(encoding="utf-8")
        after = filled_in(before, printed)
        if before == after:
            continue
        stale += 1
        if given.check:
            lines = (before.splitlines(), after.splitlines())
            print("\n".join(difflib.unified_diff(*lines, f"{path} as it is", f"{path} as printed", lineterm="")))
        else:
            path.write_text(after, encoding="utf-8")
            print(f"filled in: {path}")
    return 1 if stale and given.check else 0


if __name__ == "__main__":
    sys.exit(main())
