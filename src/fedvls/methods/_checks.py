"""Checks that several methods share. They name values as the method does, which is what the user has typed."""

from ..errors import UsageError


def in_unit_interval(method: str, **values: float) -> None:
    """Shares."""
    for name, value in values.items():
        if not 0 <= value <= 1:
            raise UsageError(f"{method}: {name} = {value} must lie in 0..1")


def at_least(method: str, bound: float, **values: float) -> None:
    """Every value >= bound."""
    for name, value in values.items():
        if not value >= bound:
            raise UsageError(f"{method}: {name} = {value} must be >= {bound}")


def above(method: str, bound: float, **values: float) -> None:
    """Every value > bound."""
    for name, value in values.items():
        if not value > bound:
            raise UsageError(f"{method}: {name} = {value} must be > {bound}")


def below_one(method: str, **values: float) -> None:
    """Every value in [0, 1), as the memory of a moving average must be."""
    for name, value in values.items():
        if not 0 <= value < 1:
            raise UsageError(f"{method}: {name} = {value} must be in [0, 1)")


def temperature_and_weight(method: str, temperature: float, **weights: float) -> None:
    """Distillation needs a positive temperature and weights that are not negative."""
    above(method, 0, temperature=temperature)
    at_least(method, 0, **weights)
