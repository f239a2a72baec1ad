"""The page of a deployment, whose sites keep their class counts; alone and beside a simulated run."""

from __future__ import annotations

import pytest
from support import write_run

from deploy.loopback import hospitals
from fedvls.report.html import write_page
from fedvls.runs.store import RunDirectory

pytestmark = pytest.mark.browser

UNKNOWN = "\N{EN DASH}"
STAYS = {
    "partition": "A deployment: class counts do not leave the sites.",
    "local": "A deployment: what local training does to each class stays at the sites.",
    "confusion": "A deployment: the sites send no confusion matrices.",
    "drift": "A deployment: drift is measured in simulated runs only.",
}


@pytest.fixture(scope="module")
def deployed(tmp_path_factory) -> RunDirectory:
    return hospitals(tmp_path_factory.mktemp("deployed"))


@pytest.mark.parametrize("width", [390, 1400])
def test_the_page_shows_what_the_server_knows_and_says_what_stays_at_the_sites(browse, deployed, tmp_path, width):
    """That the console stays empty and no request leaves is checked by `browse`."""
    page = browse(write_page([deployed], tmp_path / "report.html"), width)
    assert page.texts("h1") == ["data at 3 sites"]
    summary = "1 method, 1 seed, 1 run; only the sites know which classes they lack. 1 update refused (see Numbers)."
    assert page.texts("#summary") == [summary]
    assert len(page.all("#curves path.curve.mean")) == 1
    assert page.texts("#curves .note") == ["A deployment, evaluated on the sites' own test data, mean over samples."]
    assert {name: page.texts(f"#{name} .note") for name in STAYS} == {name: [text] for name, text in STAYS.items()}
    assert len(page.all("#speed rect.bar")) == 2
    assert page.run("return document.documentElement.scrollWidth") <= width

    assert page.texts("#table-methods tbody td:last-child") == [UNKNOWN]  # vacant classes per client
    page.click("#numbers [data-key='rounds']")
    assert len(page.column("rounds", 1)) == 3
    page.click("#numbers [data-key='refused']")
    (row,) = page.all("#table-refused tbody tr")
    assert row.text.split(maxsplit=2)[1:] == ["2", "site 1 no answer: Node Unavailable"]
    assert "null" not in page.texts("#choices td")


def test_beside_a_simulated_run_each_setting_shows_what_it_has(browse, deployed, tmp_path):
    simulated = write_run(tmp_path / "simulated")
    page = browse(write_page([deployed, simulated], tmp_path / "report.html"))
    assert "1.0 vacant classes per client where they are simulated" in page.texts("#summary")[0]
    assert page.texts("#partition .note") == [STAYS["partition"]]
    page.run("const s = document.querySelector('#picker select'); s.value = 1; s.dispatchEvent(new Event('change'))")
    assert len(page.all("#partition rect.cell")) == 9
    assert len(page.all("#local line.effect")) == 3
    assert page.texts("#table-methods tbody td:last-child") == [UNKNOWN, "1.0"]
    page.click("#numbers [data-key='classes']")
    assert page.column("classes", 4) == ["cat", "dog", "owl"]  # the sites' accuracies are not told by class
