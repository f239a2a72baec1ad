"""Checks that several methods share."""

from ..errors import UsageError


def not_negative(method: str, **values: float) -> None:
    """Weights of terms."""
    for name, value in values.items():
        if value < 0:
            raise UsageError(f"{method}: {name} = {value} must be >= 0")


def in_unit_interval(method: str, **values: float) -> None:
    """Shares."""
    for name, value in values.items():
        if not 0 <= value <= 1:
            raise UsageError(f"{method}: {name} = {value} must lie in 0..1")


def temperature_and_weight(method: str, temperature: float, **weights: float) -> None:
    """Distillation needs a positive temperature and weights that are not negative."""
    if temperature <= 0:
        raise UsageError(f"{method}: temperature = {temperature} must be > 0")
    not_negative(method, **weights)
