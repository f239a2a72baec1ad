"""The page is one file that needs nothing else and lets nothing in; see also tests/browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from importlib.resources import files

import pytest
from support import run_command, write_run

from fedvls.errors import RunError, UsageError
from fedvls.report.bundle import collect
from fedvls.report.html import SCRIPTS, build_page, embedded, write_page
from fedvls.runs.store import find_runs


class Elements(HTMLParser):
    """(tag, attributes, text) of every element with text of its own."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs), ""))

    def handle_data(self, data):
        if not self.found:  # before the first element
            return
        tag, attributes, text = self.found[-1]
        self.found[-1] = tag, attributes, text + data


@pytest.fixture
def page(tmp_path):
    write_run(tmp_path / "r")
    return build_page(collect(find_runs([tmp_path / "r"])), "A title")


def test_the_page_holds_everything_and_refers_to_nothing(page):
    for tag, attributes, _ in Elements(page).found:
        for key in ("src", "href", "action", "data"):
            assert str(attributes.get(key) or "#").startswith(("#", "data:,")), (tag, attributes)
    outside = re.findall(r"\b(?:https?:)?//[\w.]+\.\w+", page.replace("http://www.w3.org/2000/svg", ""))
    assert outside == []
    assert "@import" not in page
    assert "{{" not in page


def test_the_policy_admits_this_script_and_these_styles_only(page):
    policy = next(a["content"] for _, a, _ in Elements(page).found if a.get("http-equiv") == "Content-Security-Policy")
    for tag in ("script", "style"):
        text = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)[0]
        assert f"{tag}-src 'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" in policy
    assert "default-src 'none'" in policy
    assert "connect-src 'none'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize("text", ["</script><script>", "<!--", "a\u2028b\u2029c", "&lt;", '"quoted"', "{{script}}"])
def test_embedded_data_cannot_end_its_element_and_reads_back(text):
    written = embedded({"name": text})
    assert not re.search("[<>&\u2028\u2029]", written)
    assert json.loads(written) == {"name": text}


def test_a_title_with_markup_or_braces_stays_a_title(tmp_path):
    write_run(tmp_path / "r")
    page = build_page(collect(find_runs([tmp_path / "r"])), "<b>{{data}}</b>")
    assert "<title>&lt;b&gt;{{data}}&lt;/b&gt;</title>" in page


def test_every_file_of_the_page_is_used():
    found = {path.name for path in files("fedvls.report").joinpath("page").iterdir()}
    assert found == {"page.html", "style.css", "live.js", *(f"{name}.js" for name in SCRIPTS)}


def test_only_a_served_page_asks_for_data(tmp_path, page):
    write_run(tmp_path / "s")
    live = build_page(collect(find_runs([tmp_path / "s"])), "t", live=True)
    assert "fetch(" in live
    assert "fetch(" not in page
    assert "connect-src 'self'" in live


def test_the_command_writes_the_page_of_folders_and_runs(tmp_path):
    for name in ("one/a", "one/b", "two"):
        write_run(tmp_path / name)
    done = run_command("report", "one", "two", "-o", "deep/page.html", "--title", "Mine", cwd=tmp_path, check=True)
    assert done.stdout == "report: deep/page.html\n"
    text = (tmp_path / "deep" / "page.html").read_text(encoding="utf-8")
    assert "<title>Mine</title>" in text
    data = next(text for tag, attributes, text in Elements(text).found if attributes.get("id") == "data")
    assert [run["name"] for run in json.loads(data)["runs"]] == ["one/a", "one/b", "two"]


def test_mistakes_are_one_line(tmp_path):
    write_run(tmp_path / "r")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write"):
        write_page(find_runs([tmp_path / "r"]), tmp_path / "file" / "page.html")
    with pytest.raises(RunError, match="does not exist"):
        find_runs([tmp_path / "nowhere"])
    done = run_command("report", "nowhere", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
