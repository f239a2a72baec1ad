"""One contract for every registered method, on every engine: it trains, it repeats, it survives awkward clients."""

from __future__ import annotations

import warnings

import pytest
import torch
from support import batch_norm_net, hand_made

import fedvls
from fedvls import methods  # noqa: F401  (registers them)
from fedvls.engines import ENGINES as ALL
from fedvls.method import METHODS

# 24 samples of each of 5 classes, in order. Client 0 has every class, client 1 one sample, client 2 one class,
# client 3 two classes and 65 samples, so that its last batch of 64 leaves a single one; client 4 takes the rest.
EVERY = [0, 1, 24, 25, 48, 49, 72, 73, 96, 97]
ONE_SAMPLE = [2]
ONE_CLASS = list(range(3, 20))
SIXTY_FIVE = [*range(26, 48), *range(50, 72), *range(74, 95)]
REST = sorted(set(range(120)) - {*EVERY, *ONE_SAMPLE, *ONE_CLASS, *SIXTY_FIVE})
AWKWARD = hand_made(EVERY, ONE_SAMPLE, ONE_CLASS, SIXTY_FIVE, REST)

NAMES = [entry.name for entry in METHODS]
ENGINES = [name for name in ALL if name != "graphed"]  # that one needs a GPU: tests/gpu


def federation(data: fedvls.FederatedData, kind: str, engine: str, **more: object) -> fedvls.Federation:
    model = "mlp" if kind == "mlp" else batch_norm_net()
    return fedvls.Federation(data, partition=AWKWARD, clients=5, model=model, engine=engine, device="cpu", **more)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("participation", [1.0, 0.5])
@pytest.mark.parametrize("kind", ["mlp", "batch norm"])
@pytest.mark.parametrize("name", NAMES)
def test_trains_awkward_clients_and_repeats_to_the_bit(stripes, name, kind, participation, engine):
    fed = federation(stripes, kind, engine)
    runs = [fed.run(name, rounds=3, epochs=2, participation=participation, local_every=2, out=None) for _ in range(2)]
    first, second = (run.weights.tensors() for run in runs)
    start = runs[0].network.start(fed.device, torch.float32).tensors()
    assert runs[0].records == runs[1].records
    for key, tensor in first.items():
        assert torch.equal(tensor, second[key]), key
        assert tensor.dtype == start[key].dtype
        assert torch.isfinite(tensor).all(), key
    assert any(not torch.equal(first[k], start[k]) for k in runs[0].weights.params)
    rounds = len(runs[0].records)
    assert rounds == fedvls.get_method(name).program.total_rounds(3)
    assert not any(r["left_out"] for r in runs[0].records)
    assert len(runs[0].records[0]["cohort"]) == (5 if participation == 1 else 2)
    assert [r["round"] for r in runs[0].records if "local" in r] == sorted({*range(2, rounds + 1, 2), rounds})


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", NAMES)
def test_learns_what_can_be_learned(stripes, name, engine):
    """Separable data, evenly shared: any method must get nearly everything right (chance is 20 %)."""
    fed = fedvls.Federation(stripes, partition=fedvls.iid(), clients=3, seed=3, engine=engine, device="cpu")
    result = fed.run(name, rounds=6, epochs=5, batch_size=8, lr=0.05, out=None)
    assert result.best > 0.95


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", NAMES)
def test_resumes_to_the_same_bits_from_its_checkpoint(stripes, name, engine, tmp_path):
    class Stop(fedvls.Callback):
        def on_round(self, record, timing):
            if record["round"] == 2:
                raise KeyboardInterrupt

    whole = federation(stripes, "batch norm", engine).run(name, rounds=4, epochs=1, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        federation(stripes, "batch norm", engine).run(
            name, rounds=4, epochs=1, out=tmp_path / "stopped", callbacks=[Stop()]
        )
    resumed = federation(stripes, "batch norm", engine).run(name, rounds=4, epochs=1, out=tmp_path / "stopped")
    for key, tensor in whole.weights.tensors().items():
        assert torch.equal(tensor, resumed.weights.tensors()[key]), key
    log = "metrics.jsonl"
    assert (tmp_path / "whole" / log).read_bytes() == (tmp_path / "stopped" / log).read_bytes()


IDENTITIES = [
    ("fedprox", {"mu": 0.0}),
    ("fedsam", {"rho": 0.0}),
    ("fedntd", {"beta": 0.0}),
    ("fedlmd", {"beta": 0.0}),
    ("fedkd", {"weight": 0.0}),
    ("fedekd", {"weight": 0.0}),
    ("feddkd", {"weight": 0.0}),
    ("mofedsam", {"rho": 0.0, "beta": 1.0}),
    ("fedvls", {"lam": 0.0, "calibration": False, "suppression": "none"}),
    ("fedrs", {"alpha": 1.0}),
    ("fedexp", {"eps": 1e9}),
    ("fedmr", {"mu": 0.0}),
    ("fedgf", {"rho": 0.0, "c_o": 0.0, "c_mode": "fixed"}),
    ("fedavgm", {"beta": 0.0}),
]


@pytest.mark.parametrize(("name", "values"), IDENTITIES, ids=[name for name, _ in IDENTITIES])
@pytest.mark.parametrize("kind", ["mlp", "batch norm"])
def test_with_its_own_part_switched_off_is_fedavg_to_the_bit(stripes, name, values, kind):
    fed = federation(stripes, kind, "sequential")
    plain = fed.run("fedavg", rounds=2, epochs=2, out=None).weights.tensors()
    other = fed.run(fedvls.get_method(name, **values), rounds=2, epochs=2, out=None).weights.tensors()
    for key, tensor in plain.items():
        assert torch.equal(tensor, other[key]), key


def test_printed_suppression_diverges_in_training_and_the_released_one_does_not(stripes):
    """The printed objective is unbounded below: present-class logits fall without end and nothing is learned."""
    fed = fedvls.Federation(stripes, partition=AWKWARD, clients=5, model="mlp", device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        printed = fedvls.get_method("fedvls", suppression="printed")
    x = torch.from_numpy(stripes.x_test)
    outcome = {}
    for label, method in (("printed", printed), ("released", fedvls.get_method("fedvls"))):
        results = [fed.run(method, rounds=rounds, epochs=5, lr=0.02, out=None) for rounds in (3, 6)]
        outcome[label] = [result.model(x).mean().item() for result in results], results[-1].last
    (early, late), accuracy = outcome["printed"]
    assert late < 100 * early < -100
    assert accuracy <= 0.2
    (early, late), accuracy = outcome["released"]
    assert abs(late) < 1
    assert accuracy > 0.5


def test_fedvls_keeps_vacant_classes_that_fedavg_forgets():
    """The paper's claim about one local update, on real digits from one global model."""
    fed = fedvls.Federation("digits", partition=fedvls.dirichlet(beta=0.05), clients=10, seed=0, device="cpu")
    start = fed.run("fedavg", rounds=15, epochs=5, out=None).weights
    after = {name: fed.run(name, rounds=1, epochs=5, start=start, out=None).local for name in ("fedavg", "fedvls")}
    assert after["fedavg"]["before"] == after["fedvls"]["before"]
    lost = {name: local["before"]["vacant"] - local["after"]["vacant"] for name, local in after.items()}
    assert lost["fedavg"] > 0.3
    assert lost["fedvls"] < 0.1
