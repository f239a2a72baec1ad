"""The complete configuration of a run: what `config.yaml` holds and what `--set key=value` changes."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from ..errors import UsageError, unknown
from ..recipe import Recipe
from ..registry import convert
from ..trackers import check_trackers

Section = dict[str, Any]

SECTIONS = ("method", "data", "partition", "model", "sampling", "augmentation")
# Name of data that only real sites can read: a deployment's.
AT_SITES = "sites"
# What may differ when a run is continued: where and how fast it computes and who is told, not what.
FREE = ("engine", "device", "threads", "checkpoint_every", "log")


@dataclass(frozen=True)
class RunConfig:
    """Every choice of a run. Sections are a name and its values; a seed left null is the run's seed."""

    method: Section = field(default_factory=lambda: {"name": "fedvls"})
    data: Section = field(default_factory=lambda: {"name": "digits"})
    partition: Section = field(default_factory=lambda: {"name": "dirichlet"})
    model: Section = field(default_factory=lambda: {"name": "mlp"})
    sampling: Section = field(default_factory=dict)
    augmentation: Section = field(default_factory=lambda: {"name": "auto"})
    clients: int = 10
    participation: float = 1.0
    rounds: int = 50
    epochs: int = 5
    batch_size: int = 64
    lr: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 1e-5
    seed: int = 0
    persistent_momentum: bool = False
    teacher_mode: Literal["eval", "train"] = "eval"
    aggregation_weights: Literal["selected", "all", "uniform"] = "selected"
    buffers: Literal["average", "uniform", "keep"] = "average"
    dtype: Literal["float32", "float64", "tf32", "bf16"] = "float32"
    local_every: int = 10
    confusion: tuple[int, ...] = ()
    start: str | None = None
    imports: tuple[str, ...] = ()
    engine: str = "auto"
    device: str = "auto"
    threads: int = 1
    checkpoint_every: int = 1
    log: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, least in (
            ("clients", 1),
            ("rounds", 1),
            ("local_every", 1),
            ("threads", 1),
            ("checkpoint_every", 1),
            ("seed", 0),
        ):
            if getattr(self, name) < least:
                raise UsageError(f"{name} = {getattr(self, name)} must be >= {least}")
        self.recipe()  # its values are checked before a folder is written
        if not 0 < self.participation <= 1:
            raise UsageError(
                f"participation = {self.participation} must be in (0, 1]: the share of clients in each round"
            )
        check_trackers(self.log)
        for client in self.confusion:
            if not 0 <= client < self.clients:
                raise UsageError(f"confusion: there is no client {client}; clients are 0..{self.clients - 1}")

    @staticmethod
    def from_mapping(values: Mapping[str, Any], where: str = "config") -> RunConfig:
        """Checked and converted; unknown keys are errors with the nearest match."""
        fields = {f.name: f for f in dataclasses.fields(RunConfig)}
        hints = _types()
        given: dict[str, Any] = {}
        for key, value in values.items():
            if key not in fields:
                raise unknown(f"key in {where}:", key, fields)
            if key in SECTIONS:
                given[key] = _section(key, value, fields[key])
            elif key in ("confusion", "imports", "log"):
                given[key] = _sequence(key, value, int if key == "confusion" else str)
            else:
                given[key] = convert(value, hints[key], f"{where}: {key}")
        return RunConfig(**given)

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, ready for YAML."""
        plain = dataclasses.asdict(self)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in plain.items()}

    def to_yaml(self) -> str:
        """A file that `fedvls run` takes as it is."""
        body = yaml.safe_dump(self.to_mapping(), sort_keys=False, allow_unicode=True)
        return f"# fedvls run config.yaml\n{body}"

    def recipe(self) -> Recipe:
        """The part that says how clients train."""
        return Recipe(**{f.name: getattr(self, f.name) for f in dataclasses.fields(Recipe) if hasattr(self, f.name)})

    def replaced(self, **values: Any) -> RunConfig:
        return dataclasses.replace(self, **values)

    def seed_of(self, section: Literal["partition", "model", "sampling"]) -> int:
        """The section's own seed, else the run's."""
        own = getattr(self, section).get("seed")
        return self.seed if own is None else int(convert(own, int, f"{section}.seed"))

    def differences(self, other: RunConfig) -> list[str]:
        """Keys that make the two configs different runs."""
        mine, theirs = self.to_mapping(), other.to_mapping()
        for plain in (mine, theirs):
            plain["data"] = {k: v for k, v in plain["data"].items() if k != "data_dir"}
        return [f"{k} ({theirs[k]!r} there, {mine[k]!r} here)" for k in mine if k not in FREE and mine[k] != theirs[k]]


@functools.cache
def _types() -> dict[str, Any]:
    """The types of a configuration's keys: found once, because studies make thousands of configurations."""
    return typing.get_type_hints(RunConfig)


def read_config(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file, or one line that says what is wrong with it."""
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"cannot read config {path}: {' '.join(str(error).split())}") from None
    if not isinstance(loaded, dict):
        raise UsageError(f"config {path} must be a mapping of keys to values, not {type(loaded).__name__}")
    return loaded


def apply_settings(values: Mapping[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """`values` with each `key.sub=value` applied; values are read as YAML scalars."""
    result: dict[str, Any] = {k: dict(v) if isinstance(v, Mapping) else v for k, v in values.items()}
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals or not path.strip():
            raise UsageError(f"--set {setting!r} must look like key=value, e.g. method.lam=0.5")
        try:
            assign(result, path.strip(), yaml.safe_load(text))
        except yaml.YAMLError:
            assign(result, path.strip(), text)
    return result


def assign(values: dict[str, Any], path: str, value: Any) -> None:
    """Set the key that a dotted path names; a section that is only a name so far becomes a mapping with that name."""
    *parents, last = path.split(".")
    for parent in parents:
        inner = values.get(parent)
        values[parent] = {"name": inner} if isinstance(inner, str) else dict(inner or {})
        values = values[parent]
    values[last] = value


def _section(key: str, value: Any, about: dataclasses.Field[Any]) -> Section:
    """A name, or a mapping; one without a name means the default's."""
    if isinstance(value, str):
        return {"name": value}
    if not isinstance(value, Mapping):
        raise UsageError(f"{key} = {value!r} must be a name or a mapping, e.g. {{name: ...}}")
    assert callable(about.default_factory)
    return {**about.default_factory(), **value}


def _sequence(key: str, value: Any, kind: type) -> tuple[Any, ...]:
    items = value if isinstance(value, list | tuple) else [value]
    return tuple(convert(item, kind, key) for item in items)
