"""Jobs on a Ray cluster: one task each; files of finished runs travel back, so no shared disk is needed."""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..runs.config import RunConfig, read_config
from ..runs.files import write_atomically
from .execute import Backend, Ended
from .jobs import RESULT, Job
from .processes import run_mapping

Files = dict[str, bytes]
RETRIES = 5
START = "start.safetensors"
TASK = "fedvls_run"


def on_ray(address: str | None, workers: int | None) -> Backend:
    """Each job one task with one core (and one GPU if it runs on CUDA); a lost worker's task is run elsewhere.

    address: of a running cluster; by default a private one on this machine with so many workers.
    """
    ray = _library(private=address is None)

    def run(jobs: Sequence[Job], root: Path) -> Iterator[Ended]:
        with redirect_stdout(sys.stderr):  # where Ray prints that a worker was lost, between the lines of a table
            yield from run_tasks(jobs, root)

    def run_tasks(jobs: Sequence[Job], root: Path) -> Iterator[Ended]:
        _connect(ray, address, workers)
        try:
            task = ray.remote(run_files)
            pending: dict[Any, Job] = {}
            for job in jobs:
                config = job.ready(root)
                gpus = 1 if config.device.startswith("cuda") else 0
                sent = pack(job.folder(root)) if (job.folder(root) / "config.yaml").exists() else {}
                begin = Path(config.start).read_bytes() if config.start else None
                options = task.options(name=TASK, num_cpus=1, num_gpus=gpus, max_retries=RETRIES)
                pending[options.remote(config.to_mapping(), sent, begin)] = job
            while pending:
                (reference, *_), _ = ray.wait(list(pending))
                job = pending.pop(reference)
                try:
                    files, error = ray.get(reference)
                except ray.exceptions.RayError as problem:
                    yield job, f"its Ray task was lost: {' '.join(str(problem).split())}"
                    continue
                unpack(files, job.folder(root), job.ready(root))
                yield job, error
        finally:
            ray.shutdown()

    return run


def run_files(values: Mapping[str, Any], sent: Files, begin: bytes | None) -> tuple[Files, str | None]:
    """Run on whatever machine this is, in a folder of its own; the files of the run, and what went wrong."""
    os.environ["FEDVLS_CORES"] = "1"
    with tempfile.TemporaryDirectory(prefix="fedvls-") as place:
        folder, values = Path(place) / "run", dict(values)
        if begin is not None:
            (Path(place) / START).write_bytes(begin)
            values["start"] = str((Path(place) / START).resolve())
        if sent:
            unpack(sent, folder, RunConfig.from_mapping(values))
        error = run_mapping(values, folder)
        return (pack(folder) if folder.exists() else {}), error


def pack(folder: Path) -> Files:
    """The files of a run by their names in its folder."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(p.relative_to(folder)): p.read_bytes() for p in found if p.name != ".lock" and p.suffix != ".tmp"}


def unpack(files: Files, folder: Path, config: RunConfig) -> None:
    """Write them, the result last, because it says that the run is complete; its places become this machine's."""
    for name in sorted(files, key=lambda name: name == RESULT):
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            raise UsageError(f"a file of a run is named {name!r}, which is outside its folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, files[name])
    if "config.yaml" in files:
        there = RunConfig.from_mapping(read_config(folder / "config.yaml"))
        data = {k: v for k, v in there.data.items() if k != "data_dir"}
        if "data_dir" in config.data:
            data["data_dir"] = config.data["data_dir"]
        local = there.replaced(start=config.start, data=data)
        write_atomically(folder / "config.yaml", local.to_yaml().encode())


def _library(private: bool) -> Any:
    """Ray; for a private cluster with settings that it reads when it is imported or started."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage statistics leave the machine
    if private:
        # Listen on loopback only: without this Ray replaces 127.0.0.1 by the machine's address and listens everywhere.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        # A token of this session's own: without one Ray writes one into the user's home folder.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(16))
    try:
        import ray
    except ImportError:
        raise UsageError("--on ray needs Ray: install fedvls[ray]") from None
    return ray


def _connect(ray: Any, address: str | None, workers: int | None) -> None:
    # "local": without it Ray joins whatever cluster it finds on this machine, or the traces of one that died.
    own = {"address": "local", "num_cpus": workers, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    where: dict[str, Any] = own if address is None else {"address": address}
    try:
        ray.init(**where, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise UsageError(f"cannot reach a Ray cluster at {address or 'this machine'}: {error}") from None
