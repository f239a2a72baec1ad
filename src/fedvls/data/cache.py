"""Decoded data sets kept on disk: a set is unpacked, decoded and checked once, and mapped into memory from then on.

An entry is a folder of `.npy` files and an `entry.json` with their lengths and checksums. Its name holds a digest of
the names, sizes and times of the files it was made from, so changed files make a new entry. It is written under
another name and renamed when it is complete; an entry that is damaged all the same is found out and made again.
Nothing in it is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import logging
import mmap
import os
import secrets
import shutil
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from .arrays import Array, one_line

log = logging.getLogger("fedvls")

Stamp = tuple[str, int, int]  # name, size in bytes, time of the last change in ns

_FORMAT = 1
_UNFINISHED = ".writing-"
_ABANDONED_SECONDS = 24 * 3600


@dataclass(frozen=True)
class Decoded:
    """Arrays by the names they have in `FederatedData`, and what else there is to know, ready for JSON."""

    arrays: Mapping[str, Array]
    about: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, x_train: Array, y_train: Array, x_test: Array, y_test: Array, **about: Any) -> Decoded:
        """The usual four arrays."""
        return cls({"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}, about)


@dataclass(frozen=True)
class Found:
    """A data set that is on this machine but not decoded yet.

    version: of the decoder; raise it when the same files give other arrays than before.
    values: the choices that decoding depends on.
    remedy: what to do when a file turns out to be bad.
    """

    kind: str
    root: Path
    stamps: tuple[Stamp, ...]
    decode: Callable[[], Decoded]
    version: int = 1
    values: Mapping[str, Any] = field(default_factory=dict)
    remedy: str = ""

    def load(self) -> Decoded:
        """The arrays: from the cache where they are, else decoded now and kept."""
        where = cache_folder() / self._entry
        try:
            kept = _read(where)
        except _Damaged as damage:
            log.warning("the decoded copy of %s in %s is damaged (%s): decoding it again", self.root, where, damage)
            shutil.rmtree(where, ignore_errors=True)
            kept = None
        if kept is not None:
            return kept
        made = self.decode_or_say()
        try:
            _write(where, made, {"kind": self.kind, "from": str(self.root)})
        except OSError as error:
            why = error.strerror or one_line(error)
            log.warning("%s cannot be kept in %s (%s): the next start decodes it again", self.kind, where.parent, why)
        return made

    def decode_or_say(self) -> Decoded:
        """Decode; an error says what to do about the file."""
        try:
            return self.decode()
        except DataError as error:
            raise DataError(f"{error}; {self.remedy}" if self.remedy else str(error)) from None

    @property
    def _entry(self) -> str:
        identity = _digest([self.kind, str(self.root), dict(self.values)])
        return f"{self.kind}-{identity}-{_digest([_FORMAT, self.version, sorted(self.stamps)])}"


class _Damaged(Exception):
    """An entry that is there but cannot be trusted."""


def cache_folder() -> Path:
    """The folder of decoded sets: `$FEDVLS_CACHE_DIR`, else `fedvls/decoded` in the user's cache."""
    given = os.environ.get("FEDVLS_CACHE_DIR")
    default = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "fedvls" / "decoded"
    return Path(given or default).expanduser().absolute()


def stamps_of(paths: Iterable[Path]) -> tuple[Stamp, ...]:
    """Name, size and time of each file."""
    return tuple((str(path), about.st_size, about.st_mtime_ns) for path in paths for about in [path.stat()])


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _read(where: Path) -> Decoded | None:
    """The entry, None if there is none; `_Damaged` says why one is not used."""
    if not where.is_dir():
        return None
    try:
        outer = json.loads((where / "entry.json").read_bytes())
        entry = outer["entry"]
        if outer["sum"] != _digest(entry):
            raise _Damaged("entry.json has the wrong checksum")
        arrays = {key: _mapped(where / f"{key}.npy", about) for key, about in entry["files"].items()}
        return Decoded(arrays, entry["about"])
    except OSError as error:
        raise _Damaged(error.strerror or one_line(error)) from None
    except (ValueError, KeyError, TypeError) as error:
        raise _Damaged(f"entry.json: {one_line(error)}") from None


def _mapped(path: Path, about: Mapping[str, int]) -> Array:
    """The array of one file, once its length and checksum are right; its values stay on disk until they are used."""
    length = path.stat().st_size
    if length != about["bytes"]:
        raise _Damaged(f"{path.name} has {length} bytes, not {about['bytes']}")
    if _sum(path) != about["crc32"]:
        raise _Damaged(f"{path.name} has the wrong checksum")
    array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def _sum(path: Path) -> int:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return zlib.crc32(content)


def _write(where: Path, made: Decoded, about: Mapping[str, Any]) -> None:
    where.parent.mkdir(parents=True, exist_ok=True)
    _tidy(where)
    unfinished = where.with_name(f"{_UNFINISHED}{os.getpid()}-{secrets.token_hex(4)}")
    unfinished.mkdir()
    try:
        files = {}
        for key, array in made.arrays.items():
            path = unfinished / f"{key}.npy"
            np.save(path, np.ascontiguousarray(array), allow_pickle=False)
            files[key] = {"bytes": path.stat().st_size, "crc32": _sum(path)}
        entry = {**about, "files": files, "about": dict(made.about)}
        (unfinished / "entry.json").write_text(json.dumps({"entry": entry, "sum": _digest(entry)}), encoding="utf-8")
        try:
            unfinished.rename(where)
        except OSError:
            if not where.is_dir():  # where it is, another process was faster, with the same content
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _tidy(where: Path) -> None:
    """Remove what earlier states of the same files were decoded to, and what a killed process left unfinished."""
    stem = where.name.rsplit("-", 1)[0]
    for old in where.parent.glob(f"{stem}-*"):
        if old != where:
            shutil.rmtree(old, ignore_errors=True)
    for unfinished in where.parent.glob(f"{_UNFINISHED}*"):
        try:
            abandoned = time.time() - unfinished.stat().st_mtime > _ABANDONED_SECONDS
        except OSError:  # its writer has just finished
            continue
        if abandoned:
            shutil.rmtree(unfinished, ignore_errors=True)
