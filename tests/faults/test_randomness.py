"""No global generator is used: none is read, none is moved, and none appears in the source."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import torch
from support import ROOT, batch_norm_net
from torch import nn

import fedvls

FORBIDDEN = re.compile(
    r"np\.random\.(seed|rand|randn|randint|choice|shuffle|permutation|normal|uniform|dirichlet|get_state|set_state)\("
    r"|torch\.(manual_seed|seed|initial_seed|set_rng_state)\("
    r"|^\s*(import random|from random import)\b"  # Python's own module; a private RandomState may be called random
)


def global_states() -> tuple[object, ...]:
    name, keys, *rest = np.random.get_state()
    return random.getstate(), (name, keys.tolist(), *rest), torch.get_rng_state().tolist()


def scramble(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class WithDropout(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = batch_norm_net()
        self.drop = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(self.drop(x))


def test_a_run_neither_reads_nor_moves_a_global_generator(stripes):
    for model in ("mlp", WithDropout()):
        weights = []
        for seed in (1, 2):
            scramble(seed)
            before = global_states()
            fed = fedvls.Federation(stripes, clients=3, model=model, partition=fedvls.dirichlet(beta=0.3), device="cpu")
            result = fed.run("fedvls+fedsam", rounds=2, epochs=2, participation=0.7, out=None)
            assert global_states() == before
            weights.append(result.weights.tensors())
        for key, tensor in weights[0].items():
            assert torch.equal(tensor, weights[1][key]), key


def test_the_source_names_no_global_generator():
    found = [
        f"{path.name}: {line.strip()}"
        for path in sorted(Path(ROOT / "src").rglob("*.py"))
        for line in path.read_text().splitlines()
        if FORBIDDEN.search(line)
    ]
    assert found == []


def test_seeds_can_be_set_apart(stripes):
    base = fedvls.Federation(stripes, clients=3, seed=0, device="cpu")
    other = fedvls.Federation(stripes, clients=3, seed=0, partition_seed=5, device="cpu")
    assert other.split.fingerprint != base.split.fingerprint
    assert other.network.fingerprint == base.network.fingerprint
    model = fedvls.Federation(stripes, clients=3, seed=0, model_seed=5, device="cpu")
    assert model.split.fingerprint == base.split.fingerprint
    assert model.network.fingerprint != base.network.fingerprint


def test_the_order_of_cohorts_and_memory_of_other_rounds_do_not_matter(stripes):
    """Round 3's sampling and batches depend on the number 3, not on what was drawn before."""
    from fedvls.clients import sample_cohort

    assert [sample_cohort(10, 0.3, 7, r) for r in (1, 2, 3)][2] == sample_cohort(10, 0.3, 7, 3)
