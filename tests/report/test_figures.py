"""Figures for papers: every kind, every format, the right size."""

from __future__ import annotations

import re

import pytest
from PIL import Image
from support import ROOT, run_command, write_run

from fedvls.errors import RunError, UsageError
from fedvls.report.bundle import collect
from fedvls.report.figures import ENDINGS, KINDS, draw, find_kind
from fedvls.report.figures.files import WIDTHS
from fedvls.report.figures.view import band_of, view_of
from fedvls.runs.store import find_runs

HOSTILE = ("<b>&amp;</b>", "$x^{2$ \\frac", "метод", "m" * 200)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for method in ("fedavg", "fedntd", "fedvls"):
        for seed in (0, 1):
            write_run(folder / f"{method}-{seed}", method, seed, rounds=6)
    return collect(find_runs([folder]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", WIDTHS)
def test_every_kind_fits_its_column(bundle, tmp_path, kind, width):
    path = draw(find_kind(kind), view_of(bundle), tmp_path / f"{kind}.png", width)
    with Image.open(path) as image:
        assert image.width / 300 <= WIDTHS[width] + 0.08  # 300 dots per inch, and what the trimming leaves
        assert image.width / 300 >= 0.85 * WIDTHS[width]
        assert len(image.convert("RGB").getcolors(2**24)) > 20


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_format_is_written_and_twice_the_same(bundle, tmp_path, ending):
    first, second = (draw(find_kind("curves"), view_of(bundle), tmp_path / f"{k}{ending}").read_bytes() for k in "ab")
    assert first.startswith({".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[ending])
    assert first == second
    if ending == ".pdf":
        assert b"/Type3" not in first  # publishers refuse it
    if ending == ".svg":
        assert b"FedVLS" in first  # text stays text


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_names_are_drawn_as_text(tmp_path, kind):
    for number, name in enumerate(HOSTILE):
        write_run(tmp_path / str(number), name, class_names=HOSTILE)
    path = draw(find_kind(kind), view_of(collect(find_runs([tmp_path]))), tmp_path / f"{kind}.svg")
    assert path.stat().st_size > 1000


def test_the_band_is_mean_lowest_and_highest_of_the_seeds_that_reached_the_round():
    runs = [{"points": [(1, 0.2), (2, 0.4)]}, {"points": [(1, 0.4)]}]
    rounds, mean, low, high = band_of(runs, lambda run: run["points"])
    assert rounds.tolist() == [1, 2]
    assert mean.tolist() == pytest.approx([0.3, 0.4])
    assert (low.tolist(), high.tolist()) == ([0.2, 0.4], [0.4, 0.4])


def test_a_choice_that_is_not_there_is_said(bundle, tmp_path):
    with pytest.raises(UsageError, match="--seed 7: these runs have 0, 1"):
        view_of(bundle, seed=7)
    with pytest.raises(UsageError, match="--setting 2 must be from 1 to 1"):
        view_of(bundle, setting=2)
    with pytest.raises(RunError, match="no confusion matrix of client 2 with seed 0; recorded: 0"):
        draw(find_kind("confusion"), view_of(bundle, client=2), tmp_path / "c.png")
    two = {**bundle, "settings": ["a", "b"]}
    with pytest.raises(UsageError, match="choose one with --setting: 1: a; 2: b"):
        view_of(two)
    with pytest.raises(UsageError, match="did you mean 'heatmap'"):
        find_kind("heatmaps")


def test_the_command_lists_draws_and_refuses(tmp_path):
    write_run(tmp_path / "r")
    listed = run_command("plot", cwd=tmp_path, check=True).stdout
    assert [line.split()[0] for line in listed.splitlines()] == list(KINDS)
    assert run_command("plot", "drift", "r", "-o", "d.pdf", cwd=tmp_path, check=True).stdout == "figure: d.pdf\n"
    for arguments, said in (
        (["plot", "curves"], "which runs?"),
        (["plot", "curves", "r", "-o", "x.gif"], "must end in .png, .svg, .pdf"),
        (["plot", "curves", "r", "--width", "wide"], "is not one of column, page"),
    ):
        done = run_command(*arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert said in done.stderr


def test_the_gallery_shows_every_kind():
    text = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", text, re.MULTILINE) == list(KINDS)
    for kind in KINDS.values():
        image = ROOT / "docs" / "images" / f"gallery-{kind.name}.png"
        assert f"{kind.summary}\n" in text
        assert image.stat().st_size < 300_000
