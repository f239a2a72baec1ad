"""Pages whose tables are what commands print."""

from __future__ import annotations

import importlib.util

import pytest
from support import ROOT

SPEC = importlib.util.spec_from_file_location("printed", ROOT / "benchmarks/printed.py")
printed = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(printed)

PAGES = [path for path in sorted((ROOT / "docs").glob("*.md")) if "<!-- printed -->" in path.read_text("utf-8")]
BLOCKS = [
    pytest.param(found[0], id=f"{path.stem}-{number}")
    for path in PAGES
    for number, found in enumerate(printed.BLOCK.finditer(path.read_text(encoding="utf-8")))
]
PAGE = """# A page

```sh
fedvls ls methods
```

<!-- printed -->
something old
<!-- end -->

Words in between.

```sh
fedvls ls models
```

Not printed here.
"""


def test_what_stands_below_a_command_becomes_what_it_prints_and_nothing_else_changes():
    asked = []

    def output(command):
        asked.append(command)
        return "| a | table |\n"

    filled = printed.filled_in(PAGE, output)
    assert asked == ["fedvls ls methods"]
    assert filled == PAGE.replace("\nsomething old\n", "\n\n| a | table |\n\n")
    assert printed.filled_in(filled, output) == filled


def test_a_command_that_fails_is_not_filled_in():
    with pytest.raises(SystemExit, match="unknown study"):
        printed.printed("fedvls reproduce no-such-study --format markdown")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_block_is_closed(path):
    page = path.read_text(encoding="utf-8")
    assert page.count("<!-- printed -->") == len(printed.BLOCK.findall(page)) > 0


@pytest.mark.parametrize("block", BLOCKS)  # one by one, so that they are shared out among processes
def test_what_a_page_shows_is_what_its_command_prints(block):
    assert printed.filled_in(block, printed.printed) == block, "run: python benchmarks/printed.py docs/*.md"
