"""The report as a reader meets it: in a real browser, from a file."""

from __future__ import annotations

import csv
import json
import math
import re

import pytest
from selenium.webdriver.common.keys import Keys
from support import write_run

from fedvls.report.bundle import collect
from fedvls.report.html import write_page
from fedvls.runs.store import find_runs

pytestmark = pytest.mark.browser

METHODS = ("fedavg", "fedntd", "fedvls")
HOSTILE = (
    "<script>document.title='owned'</script>",
    '"><img src=x onerror="document.title=\'owned\'">',
    "'; alert(1); //{{data}}${1+1}</style>",
    "m" * 400,
    "방법 метод طريقة \u2028 🙂",
)


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Three methods, two seeds; the page beside them."""
    folder = tmp_path_factory.mktemp("compared")
    for method in METHODS:
        for seed in (0, 1):
            write_run(folder / f"{method}-s{seed}", method, seed, rounds=8)
    return write_page(find_runs([folder]), folder / "report.html"), collect(find_runs([folder]))


def end_of(path: str) -> tuple[float, float]:
    return tuple(float(v) for v in re.findall(r"-?[\d.]+,-?[\d.]+", path)[-1].split(","))


def test_every_section_is_there_and_drawn(browse, compared):
    page = browse(compared[0])
    sections = ["curves", "partition", "local", "confusion", "drift", "speed", "numbers", "choices"]
    assert page.run("return [...document.querySelectorAll('main section')].map((s) => s.id)") == sections
    assert page.run("return [...document.querySelectorAll('nav a')].map((a) => a.hash.slice(1))") == sections
    assert len(page.all("#curves-chart path.curve.mean")) == 3
    assert len(page.all("#curves-chart path.band")) == 3  # two seeds each
    assert len(page.all("#drift-chart path.curve.mean")) == 3
    assert len(page.all("#partition rect.cell")) == 9  # three clients, three classes
    assert len(page.all("#partition rect.vacancy")) == 3  # client k lacks class k
    assert len(page.all("#confusion rect.cell")) == 27  # three methods
    assert len(page.all("#local line.effect")) == 9  # three groups, three methods
    assert len(page.all("#speed rect.bar")) == 6
    # per method: each class is vacant to one client, classes 0 and 1 are minority or majority somewhere, 2 majority
    assert len(page.all("#local rect.after")) == len(page.all("#local rect.before")) > 9


def test_the_curves_have_the_data_of_the_runs(browse, compared):
    """Pixels turned back into numbers by the axis' own labels."""
    page, bundle = browse(compared[0]), compared[1]
    ticks = page.run(
        "return [...document.querySelectorAll('#curves-chart line.grid')].map((l) => [Number(l.getAttribute('y1')),"
        " Number(l.nextSibling.textContent)])"
    )
    (y0, v0), (y1, v1) = ticks[0], ticks[-1]
    paths = page.run(
        "return [...document.querySelectorAll('#curves-chart path.curve.mean')]"
        ".map((p) => [p.dataset.label, p.getAttribute('d')])"
    )
    for label, path in paths:
        method = bundle["methods"].index(label)
        runs = [r for r in bundle["runs"] if bundle["groups"][r["group"]]["method"] == method]
        expected = 100 * sum(r["curves"]["accuracy"][-1] for r in runs) / len(runs)
        assert len(re.findall("[ML]", path)) == 8
        assert v0 + (end_of(path)[1] - y0) * (v1 - v0) / (y1 - y0) == pytest.approx(expected, abs=0.2)


def test_methods_switch_off_in_every_chart_and_on_again(browse, compared):
    page = browse(compared[0])
    page.click("#curves .chips button[data-method='1']")
    assert page.all("#curves .chips button[data-method='1']")[0].get_attribute("aria-pressed") == "false"
    assert [len(page.all(f"#{chart} path.curve.mean")) for chart in ("curves", "drift")] == [2, 2]
    assert len(page.all("#speed rect.bar")) == 4
    # Keyboard: the button that was pressed still has the focus although it was drawn anew.
    page.run("document.querySelector('#curves .chips button[data-method=\"1\"]').focus()")
    page.driver.switch_to.active_element.send_keys(Keys.SPACE)
    assert len(page.all("#curves path.curve.mean")) == 3
    assert page.driver.switch_to.active_element.get_attribute("data-method") == "1"


def test_best_last_seeds_and_measure_change_the_curves(browse, compared):
    page, bundle = browse(compared[0]), compared[1]
    page.click("#curves [data-key='best']")
    assert len(page.all("#curves-chart circle.star")) == 6  # one ring per run
    page.click("#curves [data-key='seeds']")
    assert len(page.all("#curves-chart path.band")) == 0
    assert len(page.all("#curves-chart path.thin")) == 6
    page.click("#curves [data-key='time']")
    assert "seconds" in page.texts("#curves-chart text")
    page.run("const s = document.querySelector('#curves select'); s.value = 1; s.dispatchEvent(new Event('change'))")
    assert "test loss" in page.texts("#curves-chart text")
    assert bundle["runs"][0]["curves"].keys() >= {"accuracy", "loss", "train_loss"}


def test_arrow_keys_read_the_curves_round_by_round(browse, compared):
    page, bundle = browse(compared[0]), compared[1]
    page.run("document.querySelector('#curves-chart svg').focus()")
    page.driver.switch_to.active_element.send_keys(Keys.HOME)
    assert page.texts("#curves-chart .tip strong") == ["round 1"]
    page.driver.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert page.texts("#curves-chart .tip strong") == ["round 2"]
    shown = dict(zip(page.texts("#curves-chart .tip span"), page.texts("#curves-chart .tip b"), strict=True))
    for place, label in enumerate(bundle["methods"]):
        values = [r["curves"]["accuracy"][1] for r in bundle["runs"] if r["group"] == place]
        assert shown[label] == f"{100 * sum(values) / len(values):.1f}"


def test_tables_sort_by_their_heads(browse, compared):
    page = browse(compared[0])
    page.click("#numbers [data-key='runs']")
    page.click("#table-runs thead [data-key='last']")
    falling = [float(text) for text in page.column("runs", 6)]
    assert falling == sorted(falling, reverse=True)
    page.click("#table-runs thead [data-key='last']")
    assert [float(text) for text in page.column("runs", 6)] == falling[::-1]
    assert page.all("#table-runs th[aria-sort='ascending']")[0].text.startswith("last")
    page.click("#table-runs thead [data-key='run']")
    assert page.column("runs", 1) == sorted(page.column("runs", 1))


def test_tables_filter_as_one_types(browse, compared):
    page = browse(compared[0])
    page.click("#numbers [data-key='rounds']")
    assert len(page.column("rounds", 1)) == 48  # six runs of eight rounds
    page.type("#numbers input", "fedvls-s1")
    assert set(page.column("rounds", 1)) == {"fedvls-s1"}
    assert page.texts("#numbers [role='status']") == ["8 of 48 rows"]
    page.type("#numbers input", " nothing-like-it")
    assert page.column("rounds", 1) == []


def test_downloads_hold_the_numbers(browse, compared):
    page, bundle = browse(compared[0]), compared[1]
    page.click("#numbers [data-key='runs']")
    page.click("#numbers [data-save='json']")
    page.click("#numbers [data-save='csv']")
    files = [page.downloads / f"fedvls-runs.{ending}" for ending in ("json", "csv")]
    page.wait(lambda: all(path.exists() and path.stat().st_size for path in files))
    rows = json.loads(files[0].read_text())
    assert [row["last"] for row in rows] == [run["last"] for run in bundle["runs"]]
    with files[1].open(newline="") as file:
        assert [float(row["best"]) for row in csv.DictReader(file)] == [run["best"] for run in bundle["runs"]]


def test_hidden_choices_show_what_differs(browse, compared):
    page = browse(compared[0])
    differing, everything = (
        page.run("return [...arguments[0].querySelectorAll('th code')].map((e) => e.textContent)", t)
        for t in page.all("#choices .table")
    )
    assert differing == ["partition.seed", "partition.fingerprint", "method.name", "seed"]
    assert set(differing) < set(everything)
    assert "data.name" in everything
    assert any("fedavg (2 runs); fedntd (2 runs); fedvls (2 runs)" in text for text in page.texts("#choices td"))


@pytest.mark.parametrize("width", [320, 390, 768, 1400])
def test_no_width_makes_the_page_scroll_sideways(browse, compared, width):
    page = browse(compared[0], width)
    assert page.run("return document.documentElement.scrollWidth") <= width


def contrast(first: str, second: str) -> float:
    """WCAG 2's contrast ratio of two CSS colours."""

    def luminance(colour: str) -> float:
        parts = [int(v) / 255 for v in re.findall(r"\d+", colour)[:3]]
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_text_and_marks_stand_out_in_both_themes(browse, compared, dark):
    """WCAG AA: 4.5 for text, 3 for marks. The colours are asked of the browser, for all eight styles."""
    page = browse(compared[0], dark=dark)
    ground = page.run("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 150) == dark
    for selector in ("h1", ".explain", ".lead", "nav a", "footer"):
        colour = page.run("return getComputedStyle(document.querySelector(arguments[0])).color", selector)
        assert contrast(colour, ground) >= 4.5, selector
    marks = page.run(
        "return [...Array(8).keys()].map((k) => { const e = document.createElement('i'); e.className = `c${k}`;"
        " e.style.color = 'var(--mark)'; document.body.append(e); return getComputedStyle(e).color; })"
    )
    assert len(set(marks)) == 8
    assert min(contrast(mark, ground) for mark in marks) >= 3
    page.click("#theme")
    assert page.run("return getComputedStyle(document.body).backgroundColor") != ground


def test_methods_differ_without_colour(browse, compared):
    page = browse(compared[0])
    looks = page.run(
        "return [...document.querySelectorAll('#curves .chips svg')].map((s) =>"
        " s.querySelector('line').getAttribute('stroke-dasharray') + s.querySelector('path').getAttribute('d'))"
    )
    assert len(set(looks)) == 3


def test_every_chart_and_control_has_a_name_for_those_who_do_not_see(browse, compared):
    page = browse(compared[0])
    assert page.run(
        "return [...document.querySelectorAll('svg[role=img]')].every((s) => s.getAttribute('aria-label').length > 10)"
    )
    unnamed = page.run(
        "return [...document.querySelectorAll('button, select, input')]"
        ".filter((e) => !(e.textContent.trim() || e.ariaLabel || e.labels?.length)).length"
    )
    assert unnamed == 0


def test_hostile_names_are_text_and_break_nothing(browse, tmp_path):
    """Markup, quotes, four hundred letters, other scripts, in run, method and class names, and in the heading."""
    for number, name in enumerate(HOSTILE):
        folder = re.sub("/", "-", f"{number}-{name[:120]}")
        write_run(tmp_path / "runs" / folder, name, class_names=HOSTILE)
    path = write_page(find_runs([tmp_path / "runs"]), tmp_path / "report.html", title=f"</title>{HOSTILE[0]}")
    for width in (1400, 390):
        page = browse(path, width)
        assert page.run("return document.title") == f"</title>{HOSTILE[0]}"
        assert page.texts("h1") == [f"</title>{HOSTILE[0]}"]
        assert len(page.all("img")) == 0
        assert len(page.all("script")) == 2  # the data and the program
        assert page.run("return document.documentElement.scrollWidth") <= width
        for view in ("methods", "runs", "classes"):
            page.click(f"#numbers [data-key='{view}']")
            cells = page.texts(f"#table-{view} td")
            assert all(any(name in cell for cell in cells) for name in HOSTILE), view
        assert len(page.all("#curves path.curve.mean")) == len(HOSTILE)
        assert len(page.all("#partition rect.cell")) == 3 * len(HOSTILE)


def test_fifty_runs_of_a_hundred_rounds_load_in_three_seconds(browse, tmp_path):
    """Measured by the page's own clock. It takes about 0.3 s, so the limit has slack for a busy machine."""
    methods = ("fedavg", "fedprox", "fedlc", "fedrs", "fedntd", "fedsam", "moon", "fedmr", "fedexp", "fedvls")
    for method in methods:
        for seed in range(5):
            write_run(tmp_path / f"{method}-{seed}", method, seed, rounds=100, class_names=tuple("0123456789"))
    page = browse(write_page(find_runs([tmp_path]), tmp_path / "report.html"))
    drawn = page.run("return performance.getEntriesByName('fedvls-drawn')[0].startTime")
    loaded = page.run("return performance.getEntriesByType('navigation')[0].loadEventEnd")
    assert len(page.all("#curves path.curve.mean")) == 10
    assert 0 < drawn < 3000
    assert 0 < loaded < 3000
    before = page.run("return performance.now()")
    page.click("#curves [data-key='seeds']")
    assert len(page.all("#curves path.thin")) == 50
    assert page.run("return performance.now()") - before < 3000


def test_a_hundred_classes_are_painted_not_drawn_cell_by_cell(browse, tmp_path):
    names = tuple(f"class number {k}" for k in range(100))
    write_run(tmp_path / "wide", class_names=names)
    page = browse(write_page(find_runs([tmp_path / "wide"]), tmp_path / "report.html"), 390)
    assert len(page.all("#confusion canvas")) == 1
    painted = page.run(
        "const c = document.querySelector('#confusion canvas');"
        "const d = new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer);"
        "return new Set(d).size"
    )
    assert painted >= 2  # the diagonal and the rest
    assert page.run("return document.documentElement.scrollWidth") <= 390


def test_several_settings_are_chosen_between(browse, tmp_path):
    for lr in (0.01, 0.1):
        write_run(tmp_path / f"lr{lr}", lr=lr)
    page = browse(write_page(find_runs([tmp_path]), tmp_path / "report.html"))
    assert [text.rsplit(", ", 1)[1] for text in page.texts("#picker option")] == ["lr=0.01", "lr=0.1"]
    assert len(page.all("#curves path.curve.mean")) == 1
    page.run("const s = document.querySelector('#picker select'); s.value = 1; s.dispatchEvent(new Event('change'))")
    assert len(page.all("#curves path.curve.mean")) == 1
    assert math.isclose(len(page.column("methods", 1)), 2)
