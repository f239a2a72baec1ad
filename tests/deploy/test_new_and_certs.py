"""`fedvls flower new`, `certs` and `key`: what they write, and what they refuse."""

from __future__ import annotations

import ipaddress
import stat
import subprocess
import sys
import tomllib

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key
from flwr.app import Context, RecordDict
from support import command_environment, run_command
from typer.testing import CliRunner

import fedvls
from deploy.loopback import Loopback, deploy, node_configs
from fedvls.cli import app as cli
from fedvls.errors import FedvlsError
from fedvls.flower import client_app, server_app
from fedvls.flower.settings import nested, read_plan
from fedvls.flower.site_data import load_site


def command(*arguments):
    """`fedvls flower ...` in this process; errors are raised."""
    CliRunner().invoke(cli, ["flower", *map(str, arguments)], catch_exceptions=False, standalone_mode=False)


def flat_config(folder):
    table = tomllib.loads((folder / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    return {
        f"{key}.{inner}" if isinstance(value, dict) else key: v
        for key, value in table.items()
        for inner, v in (value.items() if isinstance(value, dict) else [("", value)])
    }


def test_a_new_app_is_complete_and_trains(tmp_path):
    done = run_command(
        "flower", "new", "my-federation", "--method", "fedntd", "--rounds", "1", cwd=tmp_path, check=True
    )
    folder = tmp_path / "my-federation"
    assert "next: read" in done.stdout
    assert {p.name for p in folder.iterdir()} == {
        *("pyproject.toml", "README.md", "client_app.py", "server_app.py", "site_data.py")
    }
    config = flat_config(folder)
    assert config["server.run_dir"] == str(folder / "run")
    apps: dict[str, dict] = {}
    for name in ("client_app", "server_app", "site_data"):
        apps[name] = {}
        exec(compile((folder / f"{name}.py").read_text(), name, "exec"), apps[name])
    grid = Loopback(apps["client_app"]["app"], node_configs(3, tmp_path), {**config, "epochs": 1})
    run = deploy(apps["server_app"]["app"], grid)
    assert len(run.records()) == 1
    assert run.config().method["name"] == "fedntd"


def test_every_setting_is_in_the_new_app_so_that_a_run_can_change_it(tmp_path):
    """`flwr run --run-config` changes only keys that the app's configuration has."""
    from dataclasses import fields

    from fedvls.flower.settings import ServerSettings, SiteSettings

    command("new", tmp_path / "app")
    written = nested(flat_config(tmp_path / "app"))
    assert written["server"].keys() == {f.name for f in fields(ServerSettings)}
    assert written["sites"].keys() == {f.name for f in fields(SiteSettings)} - {"vocabulary"}
    plan = read_plan(flat_config(tmp_path / "app"))
    assert plan.min_sites == 3


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["app", "--method", "fedconcat"], "cannot be deployed: it groups clients by their class counts"),
        (["app", "--method", "fedvlss"], "did you mean 'fedvls'"),
        (["app", "--dataset", "sites"], "--sample-shape"),
        (["9app"], "cannot be a Flower app's name"),
        (["there"], "exists and is not an empty folder"),
    ],
)
def test_new_says_what_is_wrong_and_writes_nothing(arguments, reason, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").touch()
    before = sorted(tmp_path.rglob("*"))
    name, *options = arguments
    with pytest.raises(FedvlsError, match=reason):
        command("new", tmp_path / name, *options)
    assert sorted(tmp_path.rglob("*")) == before


def test_certificates_hold_the_names_and_private_files_are_private(tmp_path):
    folder = tmp_path / "certs"
    command(
        "certs", folder, "--name", "server.example.org", "--address", "10.0.0.5", "--address", "fd::5", "--sites", 2
    )
    private = {"ca.key", "server.key", "site-0", "site-1"}
    public = {"ca.crt", "server.pem", "site-0.pub", "site-1.pub"}
    assert {p.name for p in folder.iterdir()} == private | public
    for name in private:
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    ca, server = (x509.load_pem_x509_certificate((folder / n).read_bytes()) for n in ("ca.crt", "server.pem"))
    server.verify_directly_issued_by(ca)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["server.example.org"]
    own = ("127.0.0.1", "::1")  # where the SuperLink's own processes connect; without it every run stays pending
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address(a) for a in ("10.0.0.5", "fd::5", *own)]
    assert ca.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not server.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    for site in ("site-0", "site-1"):
        key = load_ssh_private_key((folder / site).read_bytes(), None)
        assert load_ssh_public_key((folder / f"{site}.pub").read_bytes()) == key.public_key()
    command("key", folder / "site-2")
    assert (folder / "site-2.pub").exists()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "at least one --name or --address"),
        (("--address", "superlink"), "not an IP address"),
        (("--name", "10.0.0.5"), "give it with --address"),
        (("--address", "10.0.0.5", "--days", 0), "--days 0"),
    ],
)
def test_certs_says_what_is_wrong(arguments, reason, tmp_path):
    with pytest.raises(FedvlsError, match=reason):
        command("certs", tmp_path / "certs", *arguments)
    assert not (tmp_path / "certs").exists()


def test_nothing_is_overwritten(tmp_path):
    folder = tmp_path / "certs"
    command("certs", folder, "--address", "10.0.0.5", "--sites", 1)
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    for again in (("certs", folder, "--address", "10.0.0.5"), ("key", folder / "site-0")):
        with pytest.raises(FedvlsError, match="is not overwritten"):
            command(*again)
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


def write_folder(path):
    from PIL import Image

    for label in ("cat", "emu"):  # no dog here
        (path / label).mkdir(parents=True)
        for k in range(5):
            Image.fromarray(np.full((8, 8), 40 * k, np.uint8)).save(path / label / f"{k}.png")


def write_table(path):
    rows = [f"{k},{k / 2},{('cat', 'emu')[k % 2]}" for k in range(10)]
    path.write_text("\n".join(["length,weight,label", *rows]))


@pytest.mark.parametrize(
    ("kind", "write", "shape"), [("images", write_folder, "1,8,8"), ("table.csv", write_table, "2")]
)
def test_a_site_that_lacks_a_class_numbers_the_others_as_everybody_does(kind, write, shape, tmp_path):
    write(tmp_path / kind)
    plan = read_plan({"clients": 2, "sites.class_names": "cat,dog,emu", "sites.sample_shape": shape}, "fedvls", "mlp")
    data = load_site(None, {"site": 1, "data-path": str(tmp_path / kind)}, plan)
    assert data.classes == 3
    assert sorted(set(data.y_train)) == [0, 2]
    assert np.bincount(data.y_train, minlength=3).tolist() == [4, 0, 4]  # a fifth of each is for testing


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ({}, "--node-config 'site=0'"),
        ({"site": 2}, "from 0 to 1"),
        ({"site": 0}, "has no data"),
        ({"site": 0, "data-function": "nowhere:load"}, "cannot be imported"),
        ({"site": 0, "data-path": "SITE.npz"}, "has samples of shape"),
    ],
)
def test_a_site_says_what_is_wrong_with_its_node(node, reason, tmp_path):
    x, y = np.zeros((4, 3), np.float32), np.array([0, 1, 0, 1])
    np.savez(tmp_path / "SITE.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    node = {k: str(tmp_path / v) if v == "SITE.npz" else v for k, v in node.items()}
    plan = read_plan({"clients": 2, "sites.classes": 2, "sites.sample_shape": "5"}, "fedvls", "mlp")
    with pytest.raises(FedvlsError, match=reason):
        load_site(None, node, plan)


def test_a_site_may_name_a_python_function(tmp_path, monkeypatch):
    (tmp_path / "my_loader.py").write_text(
        "import fedvls, numpy as np\n"
        "def load(node):\n"
        "    x, y = np.full((4, 3), node['scale'], np.float32), np.array([0, 1, 0, 1])\n"
        "    return fedvls.FederatedData.from_arrays(x, y, x, y, classes=2)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    plan = read_plan({"clients": 2, "sites.classes": 2, "sites.sample_shape": "3"}, "fedvls", "mlp")
    data = load_site(None, {"site": 1, "data-function": "my_loader:load", "scale": 7}, plan)
    assert data.x_train.tolist() == [[7.0] * 3] * 4


def test_a_deployment_at_the_sites_alone_is_shown_and_not_resumed_by_the_simulator(tmp_path):
    """No data at the server: the sites' mean accuracy counts, and nobody knows the vacant classes."""
    data = fedvls.load_dataset("digits")
    thirds = [np.flatnonzero(data.y_train % 3 == site) for site in range(3)]

    def load(node):
        own = thirds[node["site"]]
        return fedvls.FederatedData.from_arrays(
            data.x_train[own], data.y_train[own], data.x_test, data.y_test, classes=10
        )

    config = {"clients": 3, "rounds": 2, "epochs": 1, "sites.classes": 10, "sites.sample_shape": "1,8,8"}
    config |= {"server.run_dir": str(tmp_path / "run"), "device": "cpu", "server.wait": 0.01}
    run = deploy(server_app(), Loopback(client_app(data=load), node_configs(3, tmp_path), config))
    last = run.records()[-1]
    assert last["accuracy"] == pytest.approx(np.mean([site["accuracy"] for site in last["sites"]["clients"]]))
    assert last["per_class"] == []
    header = run.header()
    assert header["partition"]["vacant_per_client"] is None
    assert header["partition"]["counts"] == header["partition"]["sizes"] == []
    shown = run_command("show", tmp_path / "run", "--json", cwd=tmp_path, check=True)
    assert '"vacant_per_client": null' in shown.stdout
    refused = run_command("resume", tmp_path / "run", cwd=tmp_path)
    assert refused.returncode == 2
    assert "flwr run" in refused.stderr


def test_importing_fedvls_and_its_command_line_does_not_import_flower():
    script = (
        "import sys, fedvls, fedvls.cli, fedvls.federation; sys.exit('flwr' in sys.modules or 'ray' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], env=command_environment(), check=True)


def test_without_flower_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "flwr", None)
    with pytest.raises(fedvls.UsageError, match=r"pip install 'fedvls\[flower\]'"):
        fedvls.flower.client_app  # noqa: B018


def test_the_server_needs_to_know_the_data_or_their_shape(tmp_path):
    context = Context(1, 0, {}, RecordDict(), {"server.run_dir": str(tmp_path / "run")})
    with pytest.raises(fedvls.UsageError, match=r"sites\.sample_shape and sites\.classes"):
        server_app()(Loopback(client_app(), [], {}), context)
