"""What server and sites agree on: the run's configuration, what is known of the data, and how the server behaves.

All of it comes with a Flower run, from `[tool.flwr.app.config]` of the app and `flwr run --run-config`, to both sides.
The tables `sites` and `server` are read here; every other key is a key of the configuration of `fedvls run`.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from ..errors import UsageError, unknown
from ..method import Method, from_spec
from ..models import build_network, complete_spec
from ..models.network import Network
from ..registry import convert
from ..runs.config import AT_SITES, RunConfig

REASONS = {
    "concatenation": "it groups clients by their class counts, which never leave a site, and trains in two stages",
    "calibration": "after the last round it needs class counts and feature statistics per class, which never leave a "
    "site",
}


@dataclass(frozen=True)
class SiteSettings:
    """What is known of the sites' data before anybody has sent anything; 0 or empty: ask the data that are here."""

    sample_shape: str = ""
    """Of one sample, e.g. "1,28,28"."""
    classes: int = 0
    class_names: str = ""
    """In order, separated by commas: for folders of images and tables whose labels are words."""
    vocabulary: int = 0
    mean: str = ""
    std: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        try:
            return tuple(int(part) for part in self.sample_shape.split(",") if part.strip())
        except ValueError:
            raise UsageError(f"sites.sample_shape = {self.sample_shape!r} must be numbers, e.g. 1,28,28") from None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.class_names.split(",") if name.strip())

    @property
    def number_of_classes(self) -> int:
        return self.classes or len(self.names)


@dataclass(frozen=True)
class ServerSettings:
    """How the server keeps the run and what it accepts."""

    run_dir: str = "runs/deployment"
    """The run's folder on the server; a run that stopped there is continued."""
    test_data: str = ""
    """What the server evaluates on: a data set's name or a path; empty: the sites' own evaluations count."""
    min_sites: int = 0
    """How many sites must be connected before a round starts (0: all)."""
    wait: float = 600.0
    """Seconds to wait for them."""
    timeout: float = 3600.0
    """Seconds to wait for the answers of a round."""
    min_updates: int = 1
    """Fewest accepted updates that make a round."""
    max_norm: float = 0.0
    """Largest L2 norm of a site's change of the model (0: no bound)."""
    max_samples: int = 10_000_000
    """Largest number of samples that is believed."""
    evaluate_every: int = 1
    """Evaluate at the sites every this many rounds (0: never)."""

    def __post_init__(self) -> None:
        for name, least in (("min_sites", 0), ("min_updates", 1), ("max_norm", 0), ("max_samples", 1)):
            if getattr(self, name) < least:
                raise UsageError(f"server.{name} = {getattr(self, name)} must be >= {least}")
        for name in ("wait", "timeout"):
            if not getattr(self, name) > 0:
                raise UsageError(f"server.{name} = {getattr(self, name)} must be > 0 seconds")
        if self.evaluate_every < 0:
            raise UsageError(f"server.evaluate_every = {self.evaluate_every} must be >= 0")


@dataclass(frozen=True)
class Plan:
    """A deployment before it meets data: everything both sides share."""

    config: RunConfig
    method: Method
    model: nn.Module | Mapping[str, Any]
    sites: SiteSettings = field(default_factory=SiteSettings)
    server: ServerSettings = field(default_factory=ServerSettings)

    @property
    def min_sites(self) -> int:
        return self.server.min_sites or self.config.clients

    def network(self, sample_shape: tuple[int, ...], classes: int, vocabulary: int | None) -> Network:
        """The model for data of this shape, changed as the method wants it."""
        seed = self.config.seed_of("model")
        classifier = self.config.model.get("classifier")
        network = build_network(self.model, sample_shape, classes, seed, classifier, vocabulary=vocabulary)
        return network if self.method.adapt is None else self.method.adapt(network, classes, seed)


def read_plan(
    run_config: Mapping[str, Any],
    method: Method | str | None = None,
    model: nn.Module | str | Mapping[str, Any] | None = None,
    **choices: Any,
) -> Plan:
    """The plan of a Flower run. What is given in Python is the default for what its configuration does not say."""
    values = nested({**choices, **run_config})
    sites = _filled(SiteSettings, values.pop("sites", {}), "sites")
    server = _filled(ServerSettings, values.pop("server", {}), "server")
    if isinstance(method, Method):
        values["method"] = method.spec
    elif method is not None:
        values.setdefault("method", {"name": method})
    if isinstance(model, nn.Module):
        values["model"] = {"name": f"own module: {type(model).__name__}"}
    elif model is not None:
        values.setdefault("model", {"name": model} if isinstance(model, str) else dict(model))
    values.setdefault("data", {"name": AT_SITES})
    if isinstance(values["data"], Mapping) and values["data"].get("name") == AT_SITES:
        values["partition"] = {"name": "given"}
    config = RunConfig.from_mapping(values, "the app's configuration")
    built = method if isinstance(method, Method) else from_spec(config.method)
    _check(config, built, server)
    if isinstance(model, nn.Module):
        return Plan(config, built, model, sites, server)
    spec = {k: v for k, v in config.model.items() if k not in ("seed", "classifier")}
    completed = complete_spec(spec)
    kept = {k: v for k, v in config.model.items() if k in ("seed", "classifier")}
    return Plan(config.replaced(model={**completed, **kept}, method=built.spec), built, completed, sites, server)


def _check(config: RunConfig, method: Method, server: ServerSettings) -> None:
    program = method.program.spec["name"]
    if program != "rounds":
        reason = REASONS.get(program, "its program needs to see all clients' data")
        raise UsageError(f"method {method.name!r} cannot be deployed: {reason}; run it with the simulator")
    if config.aggregation_weights == "all":
        raise UsageError(
            "aggregation_weights = 'all' needs the sample counts of sites that are not taking part; use selected"
        )
    if server.min_sites > config.clients:
        raise UsageError(f"server.min_sites = {server.min_sites}, but there are {config.clients} clients (sites)")


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """`{"method.name": ...}` as Flower hands it over, as tables; hyphens in keys mean underscores."""
    result: dict[str, Any] = {}
    for key, value in flat.items():
        *parents, last = key.replace("-", "_").split(".")
        table = result
        for parent in parents:
            table = table.setdefault(parent, {})
            if not isinstance(table, dict):
                raise UsageError(f"{key} = {value!r}: {parent} is a value already, so it cannot be a table too")
        table[last] = nested(value) if isinstance(value, Mapping) else value
    return result


def _filled(kind: type[Any], values: Mapping[str, Any], where: str) -> Any:
    """The dataclass with these values, converted; unknown keys are errors."""
    hints = typing.get_type_hints(kind)
    known = [f.name for f in dataclasses.fields(kind)]
    for key in values:
        if key not in known:
            raise unknown(f"key in {where}:", key, known)
    # A number where text is wanted is what `sample_shape = 64` means.
    plain = {k: str(v) if hints[k] is str and not isinstance(v, bool) else v for k, v in values.items()}
    return kind(**{k: convert(v, hints[k], f"{where}.{k}") for k, v in plain.items()})
