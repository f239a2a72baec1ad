"""Errors a user can act on. Each message is one line: the value, where it came from, what is allowed, what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class FedvlsError(Exception):
    """Base class: the command line prints the message and exits with code 2, without a traceback."""


class UsageError(FedvlsError):
    """A value that was given cannot be used."""


class DataError(FedvlsError):
    """A data file is missing, damaged or not what it should be."""


class PartitionError(FedvlsError):
    """The requested partition does not exist for these labels."""


class RunError(FedvlsError):
    """A run directory cannot be used, or a run cannot go on."""


def unknown(kind: str, given: object, known: Iterable[str]) -> UsageError:
    """The error for a name that does not exist, with the nearest names that do."""
    names = sorted(known)
    spelled = {name.lower(): name for name in names}  # papers write FedVLS, names are lower-case
    near = difflib.get_close_matches(str(given).lower(), spelled, n=1, cutoff=0.5)
    hint = f"did you mean {spelled[near[0]]!r}?" if near else f"known: {', '.join(names) or 'none'}"
    return UsageError(f"unknown {kind} {given!r}; {hint}")
