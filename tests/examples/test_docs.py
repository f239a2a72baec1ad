"""The documentation is true of the code: commands parse, links lead somewhere, code runs, nothing is left out."""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import typer
from safetensors.numpy import load_file
from support import ROOT, run_python

import fedvls.methods
from fedvls.aggregation import SERVER_RULES, ServerInputs, ServerOutputs
from fedvls.cli import app
from fedvls.cli.options import build_config
from fedvls.exchange import Outcome
from fedvls.losses import LossInputs
from fedvls.method import METHODS, from_spec
from fedvls.partition import PARTITIONS, get_partition
from fedvls.registry import convert
from fedvls.runs.config import RunConfig
from fedvls.steps import STEPS, StepContext

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
METHOD_NAMES = [entry.name for entry in METHODS]  # taken before an example can register more
FENCE = re.compile(r"^(?P<mark><!-- runnable -->\n)?```(?P<language>\w*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(path: Path, *languages: str) -> list[tuple[str, bool]]:
    """(text, marked as runnable) of the page's code blocks in these languages; none if the page is missing."""
    if not path.is_file():  # said by `test_every_page_is_there`
        return []
    found = FENCE.finditer(path.read_text(encoding="utf-8"))
    return [(m["body"], m["mark"] is not None) for m in found if m["language"] in languages]


def commands() -> list[tuple[str, str]]:
    """(page, command) for every `fedvls ...` line in a shell block; a backslash continues a line."""
    found = []
    for path in PAGES:
        for body, _ in blocks(path, "sh", "bash", "shell", "console", ""):
            for line in body.replace("\\\n", " ").splitlines():
                line = line.strip().removeprefix("$ ")
                if line.startswith("fedvls "):
                    found.append((name_of(path), line))
    return found


def parse(line: str) -> tuple[str, dict[str, object]]:
    """The subcommand and its parameters, or click's own complaint."""
    words = shlex.split(line, comments=True)[1:]
    root = typer.main.get_command(app)
    with root.make_context("fedvls", list(words)) as context:
        subcommand, command, rest = root.resolve_command(context, list(words))
        with command.make_context(str(subcommand), rest, parent=context) as inner:
            return str(subcommand), dict(inner.params)


def test_every_page_is_there():
    assert [name_of(path) for path in PAGES if not path.is_file()] == []
    assert len(commands()) > 30


@pytest.mark.parametrize(("page", "line"), [pytest.param(*c, id=f"{c[0]}: {c[1]}") for c in commands()])
def test_every_command_in_the_docs_is_understood(page, line, monkeypatch):
    monkeypatch.chdir(ROOT)  # where examples/own_method.py is
    if shlex.split(line, comments=True)[1] in ("--help", "-h"):
        return
    subcommand, params = parse(line)
    if subcommand in ("run", "compare"):
        check_choices(subcommand, params)


def check_choices(subcommand: str, params: dict[str, object]) -> None:
    """Names and values are looked up as the command would, short of training."""
    own = ("config", "method", "methods", "seed", "seeds", "out", "json", "format", "plot")
    options = {key: value for key, value in params.items() if key not in own}
    options["imports"] = [Path(file) for file in params["imports"] or ()]  # as typer hands them over
    # A config file named in the docs is that of an earlier command: all that matters here is that it names a method.
    base = {"method": {"name": "fedvls"}} if params["config"] else {}
    if subcommand == "run":
        plan = [(params["method"], [])]
    else:
        plan = [(text.split(":")[0], text.split(":")[1:]) for text in str(params["methods"]).split(",")]
    for method, values in plan:
        settings = [*(f"method.{v}" for v in values), *(options["settings"] or [])]
        config = build_config({**options, "settings": settings}, base, method=method, seed=0)
        from_spec(config.method)
        partition = {k: v for k, v in config.partition.items() if k != "seed"}
        get_partition(partition.pop("name", "dirichlet"), **partition)


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_relative_link_leads_to_a_file(path):
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        assert there.exists(), f"{name_of(path)} links to {target}"
        assert there.is_relative_to(ROOT), f"{name_of(path)} links outside the project: {target}"
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there), f"{name_of(path)} links to {target}, which has no such heading"


def anchors(path: Path) -> set[str]:
    """The anchors that a page's headings get: lower case, punctuation dropped, blanks to hyphens."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    heads = re.findall(r"^#+ +(.+?)\s*$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def page_of(method: str) -> Path:
    return ROOT / "docs" / "methods" / ("combinations.md" if "+" in method else f"{method}.md")


@pytest.mark.parametrize("method", METHOD_NAMES)
def test_every_method_has_a_page(method):
    page = page_of(method)
    text = page.read_text(encoding="utf-8")
    assert f"--method {method} " in text  # how to run it
    for value in METHODS.entry(method).defaults:
        assert f"`{value}`" in text, f"{name_of(page)} does not explain {value}"
    for part in ("Deviations", "Exchanged beyond weights"):
        # FedVLS has its deviations in a table of their own; the combinations name theirs one by one.
        assert part in text or (method == "fedvls" and "## Printed and released" in text), f"{name_of(page)}: {part}"


@pytest.mark.parametrize("method", METHOD_NAMES)
def test_what_a_method_logs_and_keeps_is_on_its_page(method, tmp_path):
    """Seen, not read: one round of every method, its metrics and the tensors of its checkpoint."""
    text = page_of(method).read_text(encoding="utf-8")
    federation = fedvls.Federation("digits", clients=4)
    result = federation.run(method, rounds=1, epochs=1, out=tmp_path / "run")
    told, logged = set(re.findall(r"`server\.(\w+)`", text)), result.records[-1]["server"].keys()
    assert logged <= told if "+" in method else logged == told  # combinations share a page
    assert ("before_finish" in result.records[-1]) == ("`before_finish`" in text)
    last = sorted((tmp_path / "run" / "checkpoint").glob("*.safetensors"))[-1]
    kept = {name.split("/")[2] for name in load_file(last) if name.startswith("client/")}
    for part in kept:
        assert f"`client/3/{part}/...`" in text, part


@pytest.mark.parametrize("method", METHOD_NAMES)
def test_the_table_of_methods_names_the_venue_and_what_is_exchanged(method):
    lines = (ROOT / "docs" / "methods" / "README.md").read_text(encoding="utf-8").splitlines()
    row = next(line for line in lines if line.startswith(f"| `{method}` |"))
    assert f"]({page_of(method).name})" in row
    venue = METHODS.entry(method).about.get("venue", "")
    assert venue in row or "FedVLS paper" in row
    cell = row.strip("|").split("|")[6].strip()
    exchanged = fedvls.get_method(method).exchanged
    assert {way for way in exchanged if exchanged[way] != "nothing"} == set(re.findall(r"\b(up|down|kept)\b", cell))


def test_every_step_and_server_rule_is_in_the_configuration_page_with_its_values():
    text = (ROOT / "docs" / "config.md").read_text(encoding="utf-8")
    for kind, registry in (("step", STEPS), ("rule", SERVER_RULES)):
        for entry in registry:
            if not entry.build.__module__.startswith("fedvls."):
                continue  # an example's
            row = next(line for line in text.splitlines() if line.startswith(f"| {kind} `{entry.name}` |"))
            shown = dict(re.findall(r"`(\w+)` `?([\w.-]+)`?", row.split("|")[2]))
            assert {k: convert(v, type(entry.defaults[k]), k) for k, v in shown.items()} == entry.defaults


def test_what_the_parts_of_a_method_see_is_all_told():
    text = (ROOT / "docs" / "adding-a-method.md").read_text(encoding="utf-8")
    first_cells = "".join(line.split("|")[1] for line in text.splitlines() if line.startswith("| "))
    for kind, prefix in (
        (LossInputs, ""),
        (StepContext, "context."),
        (ServerInputs, ""),
        (ServerOutputs, ""),
        (Outcome, "outcome."),
    ):
        for f in dataclasses.fields(kind):
            name = "client.counts" if (kind, f.name) == (LossInputs, "client") else prefix + f.name
            assert f"`{name}`" in first_cells, f"{kind.__name__}.{f.name}"


def test_every_config_key_is_explained_with_its_default():
    rows = {}
    for line in (ROOT / "docs" / "config.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if match := re.fullmatch(r"`(\w+)`", cells[0]):
            rows[match[1]] = cells[1].strip("`")
    config = RunConfig()
    shown = {"true": True, "false": False, "null": None, "[]": ()}
    assert rows.keys() == {f.name for f in dataclasses.fields(RunConfig)}
    for key, text in rows.items():
        default = getattr(config, key)
        if isinstance(default, dict):
            assert text == ("{name: " + default["name"] + "}" if default else "{}"), key
        elif isinstance(default, float):
            assert float(text) == default, key
        else:
            assert shown.get(text, text) == (default if text in shown else str(default)), key


def test_every_partition_and_data_set_is_in_the_data_page():
    text = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    for entry in (*PARTITIONS, *fedvls.DATASETS):
        assert f"| `{entry.name}` |" in text, entry.name


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_python_in_the_docs_compiles(path):
    for number, (body, _) in enumerate(blocks(path, "python")):
        compile(body, f"{name_of(path)}, block {number + 1}", "exec")


@pytest.mark.parametrize(
    "path", [path for path in PAGES if any(mark for _, mark in blocks(path, "python"))], ids=name_of
)
def test_runnable_python_in_the_docs_runs(path, tmp_path):
    script = "\n".join(body for body, mark in blocks(path, "python") if mark)
    done = run_python("-W", "error", "-c", script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_vacancies_in_the_data_page_are_those_of_the_partitions():
    """Ten classes of 5,000 samples, ten clients, mean over seeds 0 to 49: computed again."""
    text = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(dirichlet[\w-]*)` \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", text, re.MULTILINE)
    assert len(rows) == 3
    labels = np.repeat(np.arange(10), 5000)
    for name, *stated in rows:
        for beta, value in zip((0.05, 0.1, 0.5), stated, strict=True):
            partition = get_partition(name, beta=beta)
            measured = np.mean([partition.split(labels, 10, 10, seed).vacant_per_client for seed in range(50)])
            assert f"{measured:.2f}" == value, f"{name} beta {beta}"
