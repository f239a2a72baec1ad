"""Stacks of clients: the sequential engine's weights, whatever the lifted form of the model."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support import WITHOUT_ONEDNN, assert_close, batch_norm_net, dropout_net, small_data, small_mlp
from torch import nn

import fedvls
from fedvls import methods  # noqa: F401  (registers them)
from fedvls.engines import choice, parallel, stack, stacked
from fedvls.engines.stacked import StackedEngine
from fedvls.engines.support import say_turns
from fedvls.lift import OneByOne, products
from fedvls.method import METHODS
from fedvls.models.mlp import Mlp

NAMES = [entry.name for entry in METHODS if entry.build.__module__.startswith("fedvls.")]
MODELS = {"mlp": small_mlp, "batch norm": batch_norm_net, "dropout": dropout_net}


class Slots(StackedEngine):
    """What a slot of the graphed engine does, on a CPU: one client at a time with the module's own kernels."""

    name = "slots"


@pytest.fixture
def slots(monkeypatch):
    monkeypatch.setitem(choice.ENGINES, "slots", Slots)
    monkeypatch.setattr(stacked, "lift", lambda network, samples, dtype: OneByOne(network, samples))
    monkeypatch.setattr(stacked, "clients_that_fit", lambda *_: 1)


def weights(data, method, engine, dtype="float64", kind="mlp", **more):
    values = {"classifier_rounds": 2} if method == "fedconcat" else {}
    partition = fedvls.dirichlet(beta=0.5, min_size=5)
    fed = fedvls.Federation(
        data, partition=partition, clients=4, model=MODELS[kind](), engine=engine, dtype=dtype, device="cpu"
    )
    built = fedvls.get_method(method, **values)
    settings = {"batch_size": 10, "out": None, "local_every": 100, **more}
    return fed.run(built, 2, 2, **settings).weights.tensors()


@pytest.mark.parametrize("kind", list(MODELS))
@pytest.mark.parametrize("name", NAMES)
def test_two_rounds_end_with_the_sequential_engines_weights(stripes, name, kind):
    theirs = weights(stripes, name, "sequential", "float64", kind)
    assert_close(weights(stripes, name, "stacked", "float64", kind), theirs, 1e-9)


@pytest.mark.parametrize("kind", list(MODELS))
@pytest.mark.parametrize("name", NAMES)
def test_float32_agrees_too(name, kind):
    """Where float32 by itself is near float64: FPL divides cosines by 0.02, BatchNorm by the spread of a minibatch, and
    in small ones both make much of rounding, whoever rounds."""
    data, size = small_data(per_class=96), {"batch_size": 48}
    exact, theirs = (weights(data, name, "sequential", dtype, kind, **size) for dtype in ("float64", "float32"))
    assert_close({key: value.to(exact[key].dtype) for key, value in theirs.items()}, exact, 1e-5)
    assert_close(weights(data, name, "stacked", "float32", kind, **size), theirs, 1e-4)


@pytest.fixture
def onednn(monkeypatch):
    """Products by oneDNN whatever their size and the processor, in worker processes too."""
    if not products.has_onednn():
        pytest.skip(WITHOUT_ONEDNN)
    taken, original = [], products.by_onednn
    monkeypatch.setattr(products, "LARGE", 0)
    monkeypatch.setattr(products, "mkl_is_slow", lambda: True)
    monkeypatch.setattr(products, "by_onednn", lambda *given: taken.append(1) or original(*given))
    monkeypatch.setattr(parallel, "cores", lambda: 1)
    return taken


@pytest.mark.parametrize("name", NAMES)
def test_float32_agrees_with_products_by_onednn(name, onednn):
    """Weights move one by one, where a step is the gradient and nothing is added to it, or all at the end."""
    data, size = small_data(per_class=96), {"batch_size": 48}
    theirs = weights(data, name, "sequential", "float32", "mlp", **size)
    onednn.clear()
    mine, again = (weights(data, name, "stacked", "float32", "mlp", **size) for _ in range(2))
    assert onednn or name == "moon"  # whose head makes the model more than a chain
    assert_close(mine, theirs, 1e-4)
    assert all(torch.equal(tensor, again[key]) for key, tensor in mine.items())


@pytest.mark.parametrize(
    "more", [{"persistent_momentum": True}, {"momentum": 0.0}, {"weight_decay": 0.0}, {"batch_size": 7}], ids=str
)
def test_every_recipe_agrees_with_products_by_onednn(more, onednn):
    data = small_data(per_class=96)
    theirs = weights(data, "fedvls", "sequential", "float32", "mlp", **more)
    assert_close(weights(data, "fedvls", "stacked", "float32", "mlp", **more), theirs, 1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_minibatches_filled_up_to_tiles_change_nothing(stripes, name, monkeypatch):
    """Minibatches of 12 samples, made 16 wide."""
    theirs = weights(stripes, name, "sequential", batch_size=12)
    widths, laid_out = set(), stack.minibatches
    monkeypatch.setattr(stack, "minibatches", lambda *given, **more: noted(widths, laid_out(*given, **more)))
    monkeypatch.setattr(parallel, "cores", lambda: 1)
    for slow in (False, True):
        widths.clear()
        monkeypatch.setattr(products, "mkl_is_slow", lambda slow=slow: slow)
        assert_close(weights(stripes, name, "stacked", batch_size=12), theirs, 1e-9)
        chain = name != "moon"  # whose head makes the model more than a chain
        assert (16 in widths) == (slow and chain), widths


def noted(widths, batches):
    widths |= set(batches.widths.tolist())
    return batches


def test_nothing_need_be_left_when_weights_have_moved_one_by_one(onednn, monkeypatch):
    """Layers without biases, all of whose products are oneDNN's."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 5, bias=False))
    monkeypatch.setitem(MODELS, "mlp", lambda: model)
    data = small_data(per_class=96)
    mine, theirs = (weights(data, "fedavg", engine, "float32", "mlp") for engine in ("stacked", "sequential"))
    assert onednn
    assert_close(mine, theirs, 1e-4)


@pytest.mark.parametrize("kind", list(MODELS))
@pytest.mark.parametrize("name", NAMES)
def test_slots_end_with_the_sequential_engines_weights(stripes, name, kind, slots):
    theirs = weights(stripes, name, "sequential", kind=kind)
    assert_close(weights(stripes, name, "slots", kind=kind), theirs, 1e-9)


@pytest.mark.parametrize(
    "more",
    [
        {"persistent_momentum": True},
        {"participation": 0.5},
        {"momentum": 0.0},
        {"weight_decay": 0.0},
        {"aggregation_weights": "all"},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", list(MODELS))
def test_every_recipe_agrees_too(stripes, more, kind):
    theirs = weights(stripes, "fedvls", "sequential", kind=kind, **more)
    assert_close(weights(stripes, "fedvls", "stacked", kind=kind, **more), theirs, 1e-9)


@pytest.mark.parametrize("kind", list(MODELS))
@pytest.mark.parametrize("capacity", [1, 3])
def test_waves_change_nothing(stripes, monkeypatch, capacity, kind):
    whole = weights(stripes, "scaffold", "stacked", kind=kind)
    monkeypatch.setattr(stacked, "clients_that_fit", lambda *_: capacity)
    assert_close(weights(stripes, "scaffold", "stacked", kind=kind), whole, 1e-12)


@pytest.mark.parametrize(
    ("method", "dtype", "slow"),
    [
        *((entry.name, dtype, False) for entry in METHODS for dtype in ("float32", "bf16")),
        # Gradients taken at once, at two points, with something added to them, beside features.
        *((name, "float32", True) for name in ("fedavg", "fedvls", "fedsam", "fedprox", "scaffold", "fpl")),
    ],
)
def test_the_number_of_workers_does_not_change_a_bit(method, dtype, slow, monkeypatch):
    """Clients of 5 to some hundred samples, rows of an odd number of weights: a client's sums must not depend on its
    place in a stack, on the widths of its neighbours' minibatches, or on whose samples the teacher sees with its own.
    slow: products of more than a few thousand numbers, which are most here, are oneDNN's. Minibatches of 7 samples are
    padded, so that clients' matrices begin at multiples of 16 bytes; without that half of these fail. Nobody sees to
    that for bf16, nor where a model is more than a chain (MOON's head, FedConcat's last rounds): there they have 64.
    """
    monkeypatch.setattr(products, "LARGE", 1 << 12)
    monkeypatch.setattr(products, "mkl_is_slow", lambda: slow)
    draw = np.random.default_rng(0)
    centres, y = draw.normal(size=(10, 50)), draw.integers(0, 10, 2_400)
    x = (centres[y] + draw.normal(size=(2_400, 50))).astype(np.float32)
    data = fedvls.FederatedData.from_arrays(x[:2_000], y[:2_000], x[2_000:], y[2_000:])
    found, size = [], 64 if dtype == "bf16" or method in ("moon", "fedconcat") else 7
    for count in (1, 2, 3):
        monkeypatch.setattr(parallel, "cores", lambda count=count: count)
        partition = fedvls.dirichlet(beta=0.1, min_size=5)
        model = Mlp(50, (37, 37), 10)
        with torch.no_grad():
            for k, p in enumerate(model.parameters()):
                p.copy_(torch.linspace(-0.2, 0.2, p.numel()).roll(7 * k).reshape(p.shape))
        settings = {"clients": 12, "model": model, "engine": "stacked", "dtype": dtype, "device": "cpu"}
        fed = fedvls.Federation(data, partition=partition, **settings)
        found.append(fed.run(method, 2, 2, batch_size=size, out=None, local_every=100).weights.tensors())
    for other in found[1:]:
        assert all(torch.equal(tensor, other[name]) for name, tensor in found[0].items())


def test_augmented_images_are_the_sequential_engines():
    random = np.random.RandomState(0)
    x, y = random.randint(0, 256, (60, 3, 8, 8), dtype=np.uint8), np.arange(60) % 3
    data = fedvls.FederatedData.from_arrays(x, y, x[:9], y[:9], name="noise", mean=(0.5,) * 3, std=(0.2,) * 3)
    results = []
    for engine in ("sequential", "stacked"):
        fed = fedvls.Federation(
            data, partition=fedvls.iid(), clients=3, augmentation="cifar", engine=engine, dtype="float64", device="cpu"
        )
        results.append(fed.run("fedvls", 2, 2, batch_size=8, out=None).weights.tensors())
    assert_close(results[1], results[0], 1e-9)


@pytest.mark.parametrize("method", ["fedvls", "moon"])
@pytest.mark.parametrize("model", ["fasttext", "textcnn", {"name": "textcnn", "dropout": 0.4}], ids=str)
def test_texts_agree_too(model, method):
    """Token 0 is padding: its vector stays 0. MOON puts a head before the classifier."""
    random = np.random.RandomState(0)
    x, y = random.randint(0, 30, (48, 7)), np.arange(48) % 4
    x[:, 5:] = 0
    data = fedvls.FederatedData.from_arrays(x, y, x[:8], y[:8], name="words", vocabulary=30)
    results = []
    for engine in ("sequential", "stacked"):
        fed = fedvls.Federation(
            data, partition=fedvls.iid(), clients=3, model=model, engine=engine, dtype="float64", device="cpu"
        )
        results.append(fed.run(method, 2, 2, batch_size=5, lr=0.1, out=None).weights.tensors())
    assert_close(results[1], results[0], 1e-9)
    assert torch.equal(results[1]["embedding.weight"][0], torch.zeros(32, dtype=torch.float64))


@pytest.mark.parametrize("name", ["scaffold", "moon", "fedadam"])
def test_a_run_resumes_across_engines(stripes, tmp_path, name):
    class Stop(fedvls.Callback):
        def on_round(self, record, timing):
            if record["round"] == 2:
                raise KeyboardInterrupt

    def federation(engine):
        return fedvls.Federation(stripes, clients=3, engine=engine, dtype="float64", device="cpu")

    whole = federation("sequential").run(name, 4, 1, out=None).weights.tensors()
    with pytest.raises(KeyboardInterrupt):
        federation("stacked").run(name, 4, 1, out=tmp_path / "run", callbacks=[Stop()])
    resumed = federation("sequential").run(name, 4, 1, out=tmp_path / "run").weights.tensors()
    assert_close(resumed, whole, 1e-9)


@pytest.mark.parametrize("name", ["fedvls", "fedntd", "fedlmd", "fedkd", "fedvls+fedsam", "fedprox"])
def test_a_teacher_in_train_mode_sees_the_minibatches_of_its_clients(stripes, name):
    """With BatchNorm what it says of a sample depends on the others of its minibatch, the last and shorter one too."""
    results = {}
    for engine, mode in [("sequential", "train"), ("stacked", "train"), ("stacked", "eval")]:
        fed = fedvls.Federation(
            stripes,
            partition=fedvls.dirichlet(beta=0.5, min_size=5),
            clients=4,
            model=batch_norm_net(),
            engine=engine,
            dtype="float64",
            device="cpu",
        )
        run = fed.run(name, 2, 3, batch_size=6, out=None, teacher_mode=mode)
        results[engine, mode] = run.weights.tensors()
    assert_close(results["stacked", "train"], results["sequential", "train"], 1e-9)
    asks = "teacher_logits" in fedvls.get_method(name).needs
    same = all(torch.equal(t, results["stacked", "eval"][k]) for k, t in results["stacked", "train"].items())
    assert same != asks


@pytest.mark.parametrize("engine", ["sequential", "stacked"])
@pytest.mark.parametrize(("name", "weight"), [("fedvls", "lam"), ("fedntd", "beta")])
def test_distillation_does_not_pull_at_the_first_step_if_the_teacher_normalises_as_the_client_does(
    stripes, engine, name, weight
):
    """Equal weights, equal minibatch, equal mode: equal logits, so the slope of any divergence between them is 0. In
    evaluation mode the teacher disagrees from the start."""
    ends = {}
    for mode in ("train", "eval"):
        for value in (0.0, 1e3):
            fed = fedvls.Federation(
                stripes, clients=4, model=batch_norm_net(), engine=engine, dtype="float64", device="cpu"
            )
            whole = {"batch_size": 1000, "weight_decay": 0.0, "out": None, "teacher_mode": mode}
            ends[mode, value] = fed.run(fedvls.get_method(name, **{weight: value}), 1, 1, **whole).weights.tensors()
    assert_close(ends["train", 1e3], ends["train", 0.0], 1e-12)
    with pytest.raises(AssertionError):
        assert_close(ends["eval", 1e3], ends["eval", 0.0], 1e-3)


def test_what_cannot_be_stacked_is_refused_with_the_reason(stripes):
    fed = fedvls.Federation(stripes, clients=3, model=batch_norm_net(), engine="stacked", device="cpu")
    with pytest.raises(fedvls.UsageError, match="teacher_mode = train: the method compares features"):
        fed.run("moon", 1, 1, out=None, teacher_mode="train")
    with pytest.raises(fedvls.UsageError, match="'graphed' needs a CUDA device"):
        fedvls.Federation(stripes, clients=3, engine="graphed", device="cpu")


def test_clients_that_take_turns_on_a_gpu_for_want_of_memory_are_said(caplog):
    say_turns(10, 10, torch.device("cuda"))
    say_turns(8, 10, torch.device("cpu"))  # where it changes no bit
    assert not caplog.records
    say_turns(7, 10, torch.device("cuda"))
    assert "holds 7 of 10 clients at a time" in caplog.text
