"""Files as the real ones are made, and a real web server on the loopback address."""

from __future__ import annotations

import functools
import gzip
import http.server
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedvls.data import agnews, cifar, svhn, tiny, usps
from fedvls.data.download import fetch


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has its own cache of decoded sets, outside its folder of data."""
    folder = tmp_path.parent / (tmp_path.name + "-cache")
    monkeypatch.setenv("FEDVLS_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is not found must be told, not fetched: no address is known."""
    for module in (agnews, cifar, svhn, tiny, usps):
        monkeypatch.setattr(module, "fetch", lambda files, urls, into, name: fetch(files, (), into, name))


CODES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}


def idx_bytes(array: np.ndarray) -> bytes:
    """The IDX form of an array, written out from the format's description."""
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, CODES[array.dtype.str[1:]], array.ndim, *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


@pytest.fixture
def as_idx() -> Callable[[np.ndarray], bytes]:
    return idx_bytes


@pytest.fixture
def images() -> dict[str, np.ndarray]:
    """A small set of the shape of MNIST: 20 training and 10 test images, each label present."""
    draw = np.random.RandomState(5)
    return {
        "train-images-idx3-ubyte": draw.randint(0, 256, (20, 28, 28)).astype(np.uint8),
        "train-labels-idx1-ubyte": np.repeat(np.arange(10), 2).astype(np.uint8),
        "t10k-images-idx3-ubyte": draw.randint(0, 256, (10, 28, 28)).astype(np.uint8),
        "t10k-labels-idx1-ubyte": np.arange(10).astype(np.uint8),
    }


@pytest.fixture
def write_images(images: dict[str, np.ndarray]) -> Callable[..., Path]:
    """Write the four files into a folder, packed or not, under either spelling."""

    def write(folder: Path, packed: bool = True, dotted: bool = False) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        for name, array in images.items():
            content = idx_bytes(array)
            spelled = name.replace("-idx", ".idx") if dotted else name
            path = folder / (spelled + ".gz" if packed else spelled)
            path.write_bytes(gzip.compress(content, mtime=0) if packed else content)
        return folder

    return write


@pytest.fixture
def small() -> dict[str, np.ndarray]:
    """Six training and three test samples of three classes."""
    return {
        "x_train": np.arange(24, dtype=np.float32).reshape(6, 4),
        "y_train": np.array([0, 1, 2, 0, 1, 2]),
        "x_test": np.arange(12, dtype=np.float32).reshape(3, 4),
        "y_test": np.array([2, 1, 0]),
    }


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], str]]:
    """Serve a folder over HTTP from this machine; the address it answers at."""
    for variable in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.upper(), raising=False)
    servers: list[http.server.ThreadingHTTPServer] = []

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

    def start(folder: Path) -> str:
        handler = functools.partial(Quiet, directory=str(folder))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}/"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()
