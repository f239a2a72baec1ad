"""The served page refreshes itself as rounds arrive."""

from __future__ import annotations

import threading

import pytest
from support import write_run

from fedvls.report.serve import make_server

pytestmark = pytest.mark.browser


def test_new_rounds_appear_without_a_reload(browse, tmp_path):
    run = write_run(tmp_path / "going-on", rounds=6, complete=False)  # five of six rounds
    with make_server([tmp_path], None, 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
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
        server.shutdown()
        thread.join()
        # Leave before the port is closed: a poll that finds nobody would be an error on the console.
        page.driver.get("about:blank")
