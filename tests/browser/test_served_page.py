"""The served page refreshes itself as rounds arrive."""

from __future__ import annotations

import threading

import pytest
from support import write_run

import fedvls
from fedvls.report.serve import make_server
from fedvls.runs.store import RunDirectory

pytestmark = pytest.mark.browser


def serve(folder):
    """A server on a free port, in a thread of its own."""
    server = make_server([folder], None, 0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    return server, thread


def test_a_page_opened_before_the_first_round_waits_for_it(browse, tmp_path):
    RunDirectory.prepare(tmp_path / "r", fedvls.RunConfig(clients=3, rounds=4))
    server, thread = serve(tmp_path)
    page = browse(f"http://127.0.0.1:{server.server_port}/")
    assert page.texts("#summary") == ["Waiting for the first round."]
    write_run(tmp_path / "r", "fedvls", rounds=4)
    page.wait(lambda: len(page.all("#curves path.curve.mean")) == 1)
    page.driver.get("about:blank")
    server.shutdown()
    thread.join()
    server.server_close()


def test_new_rounds_appear_without_a_reload(browse, tmp_path):
    run = write_run(tmp_path / "going-on", rounds=6, complete=False)  # five of six rounds
    server, thread = serve(tmp_path)
    page = browse(f"http://127.0.0.1:{server.server_port}/")
    page.run("window.same = true")
    page.wait(lambda: "1 run going on" in page.texts("#live")[0])
    page.click("#numbers [data-key='rounds']")
    assert len(page.column("rounds", 1)) == 5
    record, timing = run.records()[-1], run.timings()[-1]
    run.append({**record, "round": 6, "accuracy": 0.875}, {**timing, "round": 6})
    run.finish({"rounds": 6})
    page.wait(lambda: "all runs are complete" in page.texts("#live")[0])
    assert page.column("rounds", 5)[-1] == "87.50"
    assert page.run("return window.same")
    page.driver.get("about:blank")  # before the port is closed: a poll that finds nobody is an error on the console
    server.shutdown()
    thread.join()
    server.server_close()
