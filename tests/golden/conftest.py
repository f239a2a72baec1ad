"""Worked values as fixtures.

`@pytest.mark.golden("FedVLS", "paper_*")` runs a test once per matching case of cases.json, in float64 and float32, and
fails it if the test leaves an expected number unread.
"""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import torch

FILE = json.loads((Path(__file__).parent / "cases.json").read_text())
CASES = {(case["method"], case["name"]): case for case in FILE["cases"]}
TOLERANCE = {torch.float64: FILE["meta"]["tolerance_float64"], torch.float32: FILE["meta"]["tolerance_float32"]}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "golden(method, *names): run for these worked cases (all without names)")


def named(method: str, *patterns: str) -> list[tuple[str, str]]:
    """Keys of the cases a mark names."""
    return [key for key in CASES if key[0] == method and any(fnmatchcase(key[1], p) for p in patterns or ("*",))]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marks = list(metafunc.definition.iter_markers("golden"))
    if marks:
        keys = [key for mark in marks for key in named(*mark.args)]
        metafunc.parametrize("case", keys, ids=["-".join(key) for key in keys], indirect=True)


class Case:
    """One worked example in one precision."""

    def __init__(self, content: dict[str, Any], dtype: torch.dtype) -> None:
        self.name, self.inputs, self.dtype = content["name"], content["inputs"], dtype
        self._expected = dict(_flat(content["expected"]))
        self._unread = {name for name, value in self._expected.items() if not isinstance(value, str)}

    def tensor(self, name: str) -> torch.Tensor:
        return torch.tensor(self.inputs[name], dtype=self.dtype)

    def rows(self, name: str) -> list[dict[str, torch.Tensor]]:
        """Each client's weights as a model with one tensor."""
        return [{"w": row} for row in self.tensor(name)]

    def batch(self) -> dict[str, torch.Tensor]:
        """Keywords of `Method.loss`; the logits take a gradient."""
        batch = {"logits": self.tensor("logits").requires_grad_(), "labels": torch.tensor(self.inputs["labels"])}
        if "class_counts" in self.inputs:
            batch["counts"] = self.tensor("class_counts")
        if "teacher_logits" in self.inputs:
            batch["teacher_logits"] = self.tensor("teacher_logits")
        return batch

    def expected(self, name: str) -> Any:
        """The worked value, which counts as read from here on."""
        self._unread.discard(name)
        return self._expected[name]

    def check(self, name: str, actual: Any) -> None:
        """`actual` is the worked value, within the file's tolerance for this precision."""
        if isinstance(actual, torch.Tensor):
            assert actual.dtype == self.dtype
            actual = actual.detach().double()
        wanted = torch.tensor(self.expected(name), dtype=torch.float64)
        torch.testing.assert_close(
            torch.as_tensor(actual, dtype=torch.float64), wanted, rtol=0, atol=TOLERANCE[self.dtype]
        )

    def assert_all_read(self) -> None:
        assert not self._unread, f"expected values never looked at: {sorted(self._unread)}"


def _flat(values: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """{"paper": {"total": 1}} as ("paper/total", 1)."""
    pairs = []
    for name, value in values.items():
        pairs += _flat(value, f"{prefix}{name}/") if isinstance(value, dict) else [(prefix + name, value)]
    return pairs


@pytest.fixture(params=list(TOLERANCE), ids=["float64", "float32"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param


@pytest.fixture
def case(request: pytest.FixtureRequest, dtype: torch.dtype):
    """The worked case of this run of the test."""
    case = Case(CASES[request.param], dtype)
    yield case
    case.assert_all_read()


@pytest.fixture(scope="session")
def worked():
    """All keys of the file, and the function that says which of them a mark names."""
    return list(CASES), named


@pytest.fixture(scope="session")
def parts():
    """`parts(method, batch)`: each term's own value, before its weight."""
    from fedvls.losses import ClientStatistics, LossInputs

    def compute(method, batch):
        logits, labels = batch["logits"], batch["labels"]
        counts = batch.get("counts", torch.ones_like(logits[0]))
        inputs = LossInputs(
            logits,
            labels,
            torch.ones_like(labels, dtype=torch.bool),
            ClientStatistics(counts),
            teacher_logits=batch.get("teacher_logits"),
        )
        return method.objective.parts(inputs)

    return compute
