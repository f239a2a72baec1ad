"""The served page: two addresses, this machine only. How it refreshes is in tests/browser."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import threading

import pytest
from support import start_command, write_run

from fedvls.errors import UsageError
from fedvls.report.serve import make_server


@pytest.fixture
def served(tmp_path):
    """A server over one unfinished run, and a way to ask it."""
    run = write_run(tmp_path / "r", rounds=4, complete=False)
    with make_server([tmp_path / "r"], None, 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()

        def ask(path: str, method: str = "GET", **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
            connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
            connection.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
            answer = connection.getresponse()
            body = answer.read()
            connection.close()
            return answer, body

        yield run, server, ask
        server.shutdown()
        thread.join()


def test_it_listens_on_the_loopback_address_only(served):
    assert served[1].server_address[0] == "127.0.0.1"


def test_the_page_and_its_data_are_served(served):
    run, _, ask = served
    answer, body = ask("/")
    assert answer.status == 200
    assert b"<!doctype html>" in body
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    data = json.loads(ask("/data.json")[1])
    assert data["runs"][0]["rounds"] == len(run.records()) == 3


def test_unchanged_data_are_not_sent_again_and_new_rounds_are(served):
    run, _, ask = served
    first, _ = ask("/data.json")
    again, body = ask("/data.json", If_None_Match=first.headers["ETag"])
    assert (again.status, body) == (304, b"")
    run.append({**run.records()[-1], "round": 4}, {**run.timings()[-1], "round": 4})
    news, body = ask("/data.json", If_None_Match=first.headers["ETag"])
    assert news.status == 200
    assert json.loads(body)["runs"][0]["rounds"] == 4


@pytest.mark.parametrize("path", ["/r/config.yaml", "/../../etc/passwd", "/%2e%2e/config.yaml", "/index.html"])
def test_there_is_nothing_else(served, path):
    assert served[2](path)[0].status == 404


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1.evil.example:{port}"])
def test_another_name_is_refused(served, host):
    """A page elsewhere could point its own name at this address and read the answer; the Host header tells."""
    _, server, ask = served
    answer, body = ask("/data.json", Host=host.format(port=server.server_port))
    assert answer.status == 403
    assert b"runs" not in body


def test_writing_is_not_offered(served):
    assert served[2]("/", method="POST")[0].status == 501


def test_a_port_in_use_is_one_line(tmp_path):
    write_run(tmp_path / "r")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError, match=r"cannot serve on port \d+: .*; choose another with --port"):
            make_server([tmp_path / "r"], None, taken.getsockname()[1])


def test_the_command_serves_until_ctrl_c(tmp_path):
    write_run(tmp_path / "r")
    process = start_command("report", "r", "--serve", "--port", 0, cwd=tmp_path, stdout=-1, stderr=-1)
    line = process.stdout.readline()
    port = int(line.split("127.0.0.1:")[1].split("/")[0])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/")
    assert connection.getresponse().status == 200
    connection.close()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert not (tmp_path / "report.html").exists()
