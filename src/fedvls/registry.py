"""A registry of named builders whose arguments are checked before the builder runs.

Methods, steps, server rules, partitions, models and data sets are all *names with values*: a name and keyword
values rebuild the same thing anywhere, so a run's `config.yaml` is complete. This is the one place that looks names
up, checks keywords and converts text (`"1e-3"` from a command line or from YAML) into the annotated type.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, ParamSpec, TypeVar

from .errors import UsageError, unknown

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True)
class Entry(Generic[T]):
    """One registered builder and what is told about it."""

    name: str
    build: Callable[..., T]
    about: Mapping[str, str] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """First line of the builder's docstring."""
        return (inspect.getdoc(self.build) or "").split("\n", 1)[0]

    @property
    def defaults(self) -> dict[str, Any]:
        """Keyword defaults, in order; a required argument maps to `inspect.Parameter.empty`."""
        return {name: p.default for name, p in inspect.signature(self.build).parameters.items()}


class Registry(Generic[T]):
    """Builders by name."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Entry[T]] = {}

    def register(self, name: str, **about: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
        """Decorate a builder: its keywords are checked, and what it returns remembers `name` and `values`."""

        def decorate(builder: Callable[P, T]) -> Callable[P, T]:
            signature = inspect.signature(builder)
            hints = typing.get_type_hints(builder)

            @functools.wraps(builder)
            def build(*args: P.args, **kwargs: P.kwargs) -> T:
                for key in kwargs:
                    if key not in signature.parameters:
                        raise unknown(f"value for {self.kind} {name!r}:", key, signature.parameters)
                try:
                    bound = signature.bind(*args, **kwargs)
                except TypeError as error:
                    raise UsageError(f"{self.kind} {name!r}: {error}") from None
                bound.apply_defaults()
                values = {
                    key: convert(value, hints.get(key, Any), f"{self.kind} {name!r}: {key}")
                    for key, value in bound.arguments.items()
                }
                built = typing.cast(Callable[..., T], builder)(**values)
                return typing.cast(T, _with_name(built, name, values))

            before = self._entries.get(name)
            if before is not None and before.build.__module__.startswith("fedvls."):
                raise UsageError(f"{self.kind} {name!r} is part of the package: choose another name for yours")
            self._entries[name] = Entry(name, build, about)
            return build

        return decorate

    def build(self, name: str, **values: Any) -> T:
        """Build `name` with these values (defaults for the rest)."""
        return self.entry(name).build(**values)

    def entry(self, name: str) -> Entry[T]:
        """The entry, or an error that names the nearest one."""
        if not isinstance(name, str) or name not in self._entries:
            raise unknown(self.kind, name, self._entries)
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[Entry[T]]:
        return iter(self._entries.values())


def _with_name(built: Any, name: str, values: dict[str, Any]) -> Any:
    """Give a built value its registered name and values, where its type has room for them."""
    if dataclasses.is_dataclass(built) and {"name", "values"} <= {f.name for f in dataclasses.fields(built)}:
        return dataclasses.replace(typing.cast(Any, built), name=name, values=values)
    return built


def convert(value: Any, hint: Any, where: str) -> Any:
    """`value` as the annotated type, or an error that says what is allowed. Unknown annotations pass through."""
    origin, choices = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        if value not in choices:
            raise UsageError(f"{where} = {value!r} is not one of {', '.join(map(repr, choices))}")
        return value
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in choices:
            return None
        inner = [choice for choice in choices if choice is not type(None)]
        return convert(value, inner[0], where) if len(inner) == 1 else value
    if hint in (bool, int, float, str):
        return _convert_scalar(value, hint, where)
    return value


def _convert_scalar(value: Any, kind: type, where: str) -> Any:
    wanted = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}[kind]
    wrong = UsageError(f"{where} = {value!r} must be {wanted}")
    if kind is bool or isinstance(value, bool):
        if kind is bool and isinstance(value, bool):
            return value
        if kind is bool and str(value).lower() in ("true", "false"):
            return str(value).lower() == "true"
        raise wrong
    if kind is str:
        if not isinstance(value, str):
            raise wrong
        return value
    try:
        number = float(value)
        if kind is int:
            if number != int(number):
                raise wrong
            return int(value) if not isinstance(value, float) else int(number)
    except (TypeError, ValueError, OverflowError):
        raise wrong from None
    if not math.isfinite(number):
        raise UsageError(f"{where} = {value!r} must be finite")
    return number
