"""A job is known by what decides its run, and by nothing else."""

from __future__ import annotations

import pytest

from fedvls.runs.config import RunConfig
from fedvls.studies.jobs import Job
from fedvls.studies.plan import Scale
from fedvls.studies.reproduce import choose_cells

BASE = {"method": "fedvls", "data": {"name": "digits"}, "partition": {"name": "dirichlet", "beta": 0.1}}


def key(**changes: object) -> str:
    return Job(RunConfig.from_mapping({**BASE, **changes})).key


@pytest.mark.parametrize(
    "same",
    [
        {"method": {"name": "fedvls", "lam": 0.1}},  # the default written out
        {"method": {"name": "fedvls", "lam": "0.1"}},
        {"partition": {"name": "dirichlet", "beta": 0.1, "min_size": 10}},
        {"model": {"name": "mlp", "width": 200}},
        {"data": {"name": "digits", "data_dir": "/elsewhere"}},
        {"engine": "sequential"},
        {"device": "cpu"},
        {"threads": 2},
    ],
)
def test_the_same_run_has_the_same_key(same):
    assert key(**same) == key()


@pytest.mark.parametrize(
    "other",
    [
        {"method": {"name": "fedvls", "lam": 0.2}},
        {"partition": {"name": "dirichlet", "beta": 0.1, "seed": 1}},
        {"model": {"name": "mlp", "seed": 1}},
        {"model": {"name": "mlp", "width": 100}},
        {"data": {"name": "digits", "fraction": 0.5}},
        {"rounds": 51},
        {"seed": 1},
        {"lr": 0.02},
        {"dtype": "float64"},
        {"start": "/some/weights.safetensors"},
    ],
)
def test_another_run_has_another_key(other):
    assert key(**other) != key()


def test_the_key_names_the_run_it_starts_from_wherever_that_lies():
    first, second = (Job(RunConfig.from_mapping({**BASE, "seed": seed})) for seed in (0, 1))
    update = RunConfig.from_mapping({**BASE, "rounds": 1})
    assert Job(update, first).key == Job(update, Job(first.config)).key
    assert len({Job(update).key, Job(update, first).key, Job(update, second).key}) == 3


def test_a_folder_name_is_safe_whatever_the_data_are_called():
    job = Job(RunConfig.from_mapping({**BASE, "data": {"name": "/tmp/../a b/<x> ø.npz"}}))
    assert "/" not in job.name
    assert " " not in job.name
    assert job.name.endswith(f"-s0-{job.key}")


@pytest.mark.parametrize(
    ("study", "asked", "name"),
    [
        ("dirichlet", {"dataset": ["mnist"], "beta": ["0.05"], "method": ["fedvls"]}, "dirichlet-0.05-s0-aabe27e6054b"),
        ("dirichlet", {"dataset": ["cifar10"], "beta": ["0.05"], "method": ["fedavg"]}, "0.05-s0-dc0a4effc0db"),
        ("quantity", {"dataset": ["cifar100"], "method": ["fedgf"]}, "fedgf-cifar100-quantity-s0-863dd7071c93"),
        ("classwise-kd", {"row": ["fedntd"], "class": ["0"]}, "fedntd-cifar10-dirichlet-0.05-s0-ba0d5efec19e"),
    ],
)
def test_archived_runs_are_found_by_the_names_they_were_given(study, asked, name):
    """Names as the first archive has them. What is added to a configuration or to a method must leave them as they
    are, or every archived run is lost to its study: leave a new key out of `Job.key` where it has its default."""
    assert choose_cells(study, asked, [0], Scale()).jobs[-1].name.endswith(name)
