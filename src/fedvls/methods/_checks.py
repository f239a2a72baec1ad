"""Checks that several methods share."""

from ..errors import UsageError


def temperature_and_weight(method: str, temperature: float, **weights: float) -> None:
    """Distillation needs a positive temperature and weights that are not negative."""
    if temperature <= 0:
        raise UsageError(f"{method}: temperature = {temperature} must be > 0")
    for name, value in weights.items():
        if value < 0:
            raise UsageError(f"{method}: {name} = {value} must be >= 0")
