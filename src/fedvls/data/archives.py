"""Files inside archives and folders, read by name into memory: nothing is ever unpacked to a path an archive names."""

from __future__ import annotations

import gzip
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Protocol, cast

from ..errors import DataError
from .arrays import one_line
from .cache import Stamp, stamps_of

_GZIP = b"\x1f\x8b"
_LARGEST = 1 << 30  # bytes of one member; the largest real one is a sixth of it
_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError, struct.error)


def tar_members(path: Path, wanted: Collection[str]) -> dict[str, bytes]:
    """Those of the wanted members that are in a tar archive, gzipped or not; the whole archive is checked."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == _GZIP
            raw.seek(0)
            if not packed:
                return _members(raw, path, wanted)
            with gzip.open(raw) as stream:
                found = _members(cast(IO[bytes], stream), path, wanted)
                while stream.read(1 << 20):  # the checksum is at the very end
                    pass
                return found
    except (*_DAMAGED, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is damaged: {one_line(error)}") from None


def _members(stream: IO[bytes], path: Path, wanted: Collection[str]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=stream, mode="r:") as archive:
        for member in archive:
            name = member.name.removeprefix("./")
            if name not in wanted or name in found or not member.isfile():
                continue
            if member.size > _LARGEST:
                raise DataError(f"{path}: {name} claims {member.size} bytes, which is more than it can have")
            content = archive.extractfile(member)
            assert content is not None  # it is a file
            found[name] = content.read()
    return found


class Tree(Protocol):
    """Files by name, in a folder or in a zip archive."""

    @property
    def where(self) -> Path: ...

    @property
    def names(self) -> Collection[str]:
        """Names relative to the root, with slashes."""

    @property
    def stamps(self) -> tuple[Stamp, ...]: ...

    def read(self, name: str) -> bytes: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class FolderTree:
    """The files below a folder; names that start with a dot are passed over."""

    where: Path
    sizes: dict[str, tuple[int, int]]

    @classmethod
    def of(cls, root: Path, below: tuple[str, ...] | None = None, depth: int = 4) -> FolderTree:
        """Look through `root` (of its folders only those named in `below`), as deep as `depth` folders."""
        sizes: dict[str, tuple[int, int]] = {}
        _scan(root, "", depth, below, sizes)
        return cls(root, sizes)

    @property
    def names(self) -> Collection[str]:
        return self.sizes.keys()

    @property
    def stamps(self) -> tuple[Stamp, ...]:
        return tuple((name, *about) for name, about in self.sizes.items())

    def read(self, name: str) -> bytes:
        return (self.where / name).read_bytes()

    def close(self) -> None:
        pass


def _scan(
    folder: Path, prefix: str, depth: int, below: tuple[str, ...] | None, sizes: dict[str, tuple[int, int]]
) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:  # in no particular order
            name = entry.name
            if name[0] == ".":
                continue
            if entry.is_dir():
                if depth > 1 and (below is None or name in below):
                    _scan(Path(entry.path), f"{prefix}{name}/", depth - 1, None, sizes)
            elif entry.is_file():
                about = entry.stat()
                sizes[prefix + name] = about.st_size, about.st_mtime_ns


class ZipTree:
    """The files below one folder of a zip archive, which is opened when something is asked of it."""

    def __init__(self, path: Path, inner: str) -> None:
        self.where = path
        self._start = inner + "/"

    @cached_property
    def _archive(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.where)
        except _DAMAGED as error:
            raise DataError(f"{self.where} is not a complete zip archive: {one_line(error)}") from None

    @cached_property
    def _members(self) -> dict[str, zipfile.ZipInfo]:
        return {
            member.filename.removeprefix(self._start): member
            for member in self._archive.infolist()
            if member.filename.startswith(self._start) and not member.is_dir()
        }

    @property
    def names(self) -> Collection[str]:
        return self._members.keys()

    @property
    def stamps(self) -> tuple[Stamp, ...]:
        return stamps_of([self.where])

    def read(self, name: str) -> bytes:
        member = self._members[name]
        if member.file_size > _LARGEST:
            raise DataError(f"{self.where}: {name} claims {member.file_size} bytes, which is more than it can have")
        try:
            return self._archive.read(member)
        except (*_DAMAGED, NotImplementedError) as error:
            raise DataError(f"{self.where}: {name} is damaged: {one_line(error)}") from None

    def close(self) -> None:
        if "_archive" in self.__dict__:
            self._archive.close()
