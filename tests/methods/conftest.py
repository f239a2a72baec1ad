"""Every registered method by name."""

from __future__ import annotations

import pytest

from fedvls import method, methods  # noqa: F401  (importing the folder registers its methods)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `registered` runs for each registered method."""
    if "registered" in metafunc.fixturenames:
        metafunc.parametrize("registered", [entry.name for entry in method.METHODS])


@pytest.fixture
def own_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten afterwards."""
    monkeypatch.setattr(method.METHODS, "_entries", dict(method.METHODS._entries))


@pytest.fixture
def message():
    """`message(call, ...)`: the one line of the UsageError that `call` raises."""
    from fedvls import UsageError

    def failing(call, *args, **kwargs) -> str:
        with pytest.raises(UsageError) as caught:
            call(*args, **kwargs)
        text = str(caught.value)
        assert "\n" not in text
        return text

    return failing
