"""Downloads from a real server on the loopback address, with the addresses and sums of the small test set."""

import bz2
import hashlib
import io
import logging
import socket
import sys
import tarfile
import threading
from dataclasses import replace

import numpy as np
import pytest

from fedvls.data import agnews, cifar, load_dataset, mnist, svhn, tiny, usps
from fedvls.data.download import fetch
from fedvls.errors import DataError

FILES = mnist.FILES


def checksums(folder):
    return tuple("md5:" + hashlib.md5((folder / file).read_bytes()).hexdigest() for file in FILES)


def nobody_there():
    """An address at which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/"


def left_in(folder):
    return [path.name for path in folder.rglob("*") if path.is_file()]


@pytest.fixture
def site(tmp_path, write_images, serve, monkeypatch):
    """A folder served as the home of MNIST; the loader is told its address and sums."""
    folder = write_images(tmp_path / "site")

    def publish(**changes):
        changes = {"base_urls": (serve(folder),), "checksums": checksums(folder), **changes}
        monkeypatch.setattr(mnist, "MNIST", replace(mnist.MNIST, **changes))
        return folder

    return publish


def test_missing_files_are_downloaded_once(tmp_path, images, site, capfd):
    folder = site()
    data = load_dataset("mnist", data_dir=tmp_path / "data")
    assert np.array_equal(data.x_train[:, 0], images["train-images-idx3-ubyte"])
    assert sorted(left_in(tmp_path / "data" / "mnist")) == sorted(FILES)
    for file in FILES:
        (folder / file).unlink()
    assert load_dataset("mnist", data_dir=tmp_path / "data").fingerprint == data.fingerprint
    assert capfd.readouterr() == ("", "")  # nobody watches, so nothing is shown


def test_the_next_address_is_tried(tmp_path, site, serve):
    site(base_urls=(nobody_there(), serve(tmp_path / "site")))
    assert len(load_dataset("mnist", data_dir=tmp_path / "data").y_train) == 20


def test_a_wrong_checksum_leaves_nothing_behind_and_is_told(tmp_path, site):
    folder = site()
    (folder / FILES[0]).write_bytes(b"not what was published")
    with pytest.raises(DataError) as caught:
        load_dataset("mnist", data_dir=tmp_path / "data")
    message = str(caught.value)
    assert message.startswith("mnist is not on this machine and could not be downloaded (")
    assert f"{FILES[0]} from 127.0.0.1:" in message
    assert "has the wrong checksum" in message
    assert message.endswith(f"put {', '.join(FILES)} into {tmp_path}/data/mnist or name their folder with --data-dir")
    assert "\n" not in message
    assert left_in(tmp_path / "data") == []


def test_a_wrong_checksum_on_the_last_file_keeps_the_right_ones_only(tmp_path, site):
    folder = site()
    (folder / FILES[3]).write_bytes(b"not what was published")
    with pytest.raises(DataError, match=FILES[3] + " from .* wrong checksum"):
        load_dataset("mnist", data_dir=tmp_path / "data")
    assert sorted(left_in(tmp_path / "data")) == sorted(FILES[:3])


def test_a_refused_connection_says_which_files_go_where(tmp_path, site):
    site(base_urls=(nobody_there(),))
    with pytest.raises(DataError) as caught:
        load_dataset("mnist", data_dir=tmp_path / "data")
    message = str(caught.value)
    assert "could not be downloaded (no connection to 127.0.0.1:" in message
    assert f"put {', '.join(FILES)} into {tmp_path}/data/mnist or name their folder with --data-dir" in message
    assert "\n" not in message
    assert not (tmp_path / "data" / "mnist").exists()


def test_a_missing_page_is_told_by_its_status(tmp_path, site):
    (site() / FILES[1]).unlink()
    with pytest.raises(DataError, match=rf"127\.0\.0\.1:\d+ answered 404 for {FILES[1]}"):
        load_dataset("mnist", data_dir=tmp_path / "data")


def test_a_broken_off_transfer_leaves_nothing_behind(tmp_path, serve):
    serve(tmp_path)  # for its removal of proxy settings
    listener = socket.create_server(("127.0.0.1", 0))

    def answer_half():
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 100)

    thread = threading.Thread(target=answer_half)
    thread.start()
    address = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    with listener, pytest.raises(DataError, match=r"broke off while sending part\.gz"):
        fetch({"part.gz": "md5:0"}, (address,), tmp_path / "into", "part")
    thread.join()
    assert not (tmp_path / "into").exists()


def test_a_folder_that_cannot_be_made_is_told(tmp_path, site):
    site()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mnist").write_text("a file in the way")
    with pytest.raises(DataError, match="data/mnist cannot be written: "):
        load_dataset("mnist", data_dir=tmp_path / "data")


def test_without_pooch_the_extra_to_install_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(DataError, match=r"install fedvls\[download\], or put train-images-idx3-ubyte\.gz, "):
        load_dataset("mnist", data_dir=tmp_path)


def test_a_terminal_sees_a_bar_per_file(tmp_path, site, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    site()
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    load_dataset("mnist", data_dir=tmp_path / "data")
    assert all(file in terminal.getvalue() for file in FILES)


def test_poochs_logger_is_left_as_it_was(tmp_path, site):
    import pooch

    site()
    pooch.get_logger().setLevel(logging.INFO)
    load_dataset("mnist", data_dir=tmp_path / "data")
    assert pooch.get_logger().level == logging.INFO


def test_an_archive_is_downloaded_once_and_then_read_from_the_cache(tmp_path, serve, monkeypatch):
    site = tmp_path / "site"
    site.mkdir()
    form = cifar.CIFAR10.forms[1]
    with tarfile.open(site / form.archive, "w:gz") as archive:
        for file in (*form.train, form.test):
            member = tarfile.TarInfo(f"{form.folder}/{file}")
            member.size = 2 * 3073
            archive.addfile(member, io.BytesIO(bytes([3]) + bytes(3072) + bytes([9]) + bytes(3072)))
    form = replace(form, checksum="md5:" + hashlib.md5((site / form.archive).read_bytes()).hexdigest())
    monkeypatch.setattr(cifar, "CIFAR10", replace(cifar.CIFAR10, forms=(form,), base_urls=(serve(site),)))
    data = load_dataset("cifar10", data_dir=tmp_path / "data")
    assert data.y_train.tolist() == [3, 9] * 5
    assert left_in(tmp_path / "data" / "cifar10") == [form.archive]
    (site / form.archive).unlink()
    assert load_dataset("cifar10", data_dir=tmp_path / "data").fingerprint == data.fingerprint


def test_only_the_missing_file_of_a_pair_is_downloaded(tmp_path, serve, monkeypatch):
    site, home = tmp_path / "site", tmp_path / "data" / "usps"
    site.mkdir()
    home.mkdir(parents=True)
    (home / "usps").write_text("1 1:0.5\n2 1:-1\n")
    (site / "usps.t.bz2").write_bytes(bz2.compress(b"2 1:0.5\n"))
    sums = ("md5:0", "md5:" + hashlib.md5((site / "usps.t.bz2").read_bytes()).hexdigest())
    monkeypatch.setattr(usps, "BASE_URLS", (serve(site),))
    monkeypatch.setattr(usps, "CHECKSUMS", sums)
    data = load_dataset("usps", data_dir=tmp_path / "data")
    assert (data.y_train.tolist(), data.y_test.tolist()) == ([0, 1], [1])
    assert sorted(left_in(home)) == ["usps", "usps.t.bz2"]


def test_published_sums_and_files_pair_up():
    for source in (mnist.MNIST, mnist.FASHION_MNIST):
        assert len(source.checksums) == len(FILES) == len(set(source.checksums))
        assert all(len(checksum) == len("md5:") + 32 for checksum in source.checksums)
        assert len(source.class_names) == len(source.first_labels) == 10
    for module in (agnews, svhn, usps):
        assert len(module.CHECKSUMS) == len(module.FILES) == 2
    for checksum in (*agnews.CHECKSUMS, *svhn.CHECKSUMS, *usps.CHECKSUMS, tiny.CHECKSUM):
        assert checksum.startswith("md5:")
        assert int(checksum[4:], 16) >= 0
        assert len(checksum) == len("md5:") + 32
