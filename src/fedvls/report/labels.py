"""What a method and a setting are called in charts: short, and never the same for two that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from .tables import short_name


def method_label(section: Mapping[str, Any]) -> str:
    """`FedVLS`, or `FedVLS (lam=0.5)` where a value is not the default."""
    from ..method import METHODS

    name = str(section.get("name"))
    values = short_name(dict(section)).removeprefix(name.rsplit("/", 1)[-1])
    title = METHODS.entry(name).about.get("title") or name if name in METHODS else name
    return f"{title} {values}".rstrip()


def distinct(labels: Sequence[str], values: Sequence[Mapping[str, Any]]) -> list[str]:
    """The labels; those that several values share get the keys in which the values differ."""
    shared = {label for label, times in Counter(labels).items() if times > 1}
    flat = [_flat(value) for value in values]
    result = []
    for label, own in zip(labels, flat, strict=True):
        if label in shared:
            rivals = [other for other, theirs in zip(flat, labels, strict=True) if theirs == label]
            keys = [k for k in dict.fromkeys(k for r in rivals for k in r) if len({str(r.get(k)) for r in rivals}) > 1]
            label = f"{label}, {', '.join(f'{key}={own.get(key)}' for key in keys)}"
        result.append(label)
    return result


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"a": {"b": 1}}` as `{"a.b": 1}`."""
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat |= _flat(inner, f"{prefix}{key}.") if isinstance(inner, Mapping) else {f"{prefix}{key}": inner}
    return flat
