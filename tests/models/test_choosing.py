"""Choosing a model: what a configuration may say, what the data decides, and one line for what does not fit."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fedvls import MODELS, UsageError
from fedvls.models import build_network, complete_spec

IMAGES = "model {!r} needs images of shape (channels, height, width); the data has samples of shape {}"
TOKENS = "model {!r} needs token sequences of shape (length,); the data has samples of shape {}"


@pytest.fixture
def registry(monkeypatch):
    """The registry, with what a test adds taken out again."""
    monkeypatch.setattr(MODELS, "_entries", dict(MODELS._entries))
    return MODELS


@pytest.mark.parametrize(
    ("model", "shape", "expected"),
    [
        *((name, (200,), IMAGES.format(name, (200,))) for name in ("mobilenetv2", "resnet18", "resnet32", "cnn")),
        ("resnet10", (2, 3, 32, 32), IMAGES.format("resnet10", (2, 3, 32, 32))),
        ("mobilenetv2", (), IMAGES.format("mobilenetv2", ())),
        ("fasttext", (3, 32, 32), TOKENS.format("fasttext", (3, 32, 32))),
        ("textcnn", (28, 28), TOKENS.format("textcnn", (28, 28))),
        (
            "textcnn",
            (4,),
            "model 'textcnn' needs sequences of at least 5 tokens; the data has samples of shape (4,)",
        ),
        ("cnn", (1, 3, 8), "model 'cnn' needs images of at least 4x4; the data has samples of shape (1, 3, 8)"),
        (
            {"name": "resnet18", "stem": "imagenet"},
            (3, 32, 32),
            "model 'resnet18': stem = 'imagenet' is not one of 'torchvision', 'cifar'",
        ),
        ({"name": "cnn", "hidden": 0}, (1, 8, 8), "model 'cnn': hidden = 0 must be >= 1"),
        ({"name": "cnn", "channels": -2}, (1, 8, 8), "model 'cnn': channels = -2 must be >= 1"),
        ({"name": "mlp", "width": 0}, (1, 8, 8), "model 'mlp': width = 0 must be >= 1"),
        ({"name": "mlp", "depth": -1}, (1, 8, 8), "model 'mlp': depth = -1 must be >= 0"),
        ({"name": "fasttext", "dimension": 0}, (20,), "model 'fasttext': dimension = 0 must be >= 1"),
        ({"name": "fasttext", "vocabulary": 0}, (20,), "model 'fasttext': vocabulary = 0 must be >= 1"),
        (
            {"name": "textcnn", "dropout": 1},
            (20,),
            "model 'textcnn': dropout = 1.0 must be at least 0 and below 1",
        ),
        ({"name": "mlp", "classes": 3}, (4,), "model 'mlp': classes is decided by the data; leave it out"),
        (
            {"name": "cnn", "sample_shape": [1, 8, 8]},
            (1, 8, 8),
            "model 'cnn': sample_shape is decided by the data; leave it out",
        ),
        (
            {"name": "mobilenetv2", "vocabulary": 5},
            (3, 32, 32),
            "unknown value for model 'mobilenetv2': 'vocabulary'; known: classes, sample_shape",
        ),
        ("mobilenet", (3, 32, 32), "unknown model 'mobilenet'; did you mean 'mobilenetv2'?"),
    ],
)
def test_a_model_that_does_not_fit_is_one_line(model, shape, expected):
    with pytest.raises(UsageError) as caught:
        build_network(model, shape, 10, seed=0)
    assert str(caught.value) == expected


def test_numbers_that_are_no_tokens_are_refused(built):
    network, state = built("fasttext", (20,), vocabulary=50)
    with pytest.raises(UsageError) as caught:
        network.logits(state, torch.zeros(2, 20), train=False)
    assert str(caught.value) == "model 'fasttext' needs whole token numbers; the data has samples of type float32"


def test_a_configuration_holds_every_value_but_what_the_data_decides():
    assert complete_spec("mobilenetv2") == {"name": "mobilenetv2"}
    assert complete_spec("resnet18") == {"name": "resnet18", "stem": "torchvision"}
    assert complete_spec("cnn") == {"name": "cnn", "channels": 32, "hidden": 512}
    assert complete_spec("fasttext") == {"name": "fasttext", "dimension": 32}
    assert complete_spec("textcnn") == {"name": "textcnn", "dimension": 32, "channels": 100, "dropout": 0.0}


def test_a_completed_configuration_builds_the_same_network():
    for name, shape in (("resnet18", (3, 8, 8)), ("textcnn", (20,))):
        short, long = (build_network(m, shape, 4, 0, vocabulary=30) for m in (name, complete_spec(name)))
        assert short.fingerprint == long.fingerprint


def embedding_rows(model, **sizes):
    network = build_network(model, (20,), 4, 0, **sizes)
    return len(network.start(torch.device("cpu"), torch.float32).params["embedding.weight"])


def test_the_data_decides_the_vocabulary_unless_more_is_asked_for():
    assert embedding_rows("fasttext", vocabulary=30) == 30
    assert embedding_rows({"name": "fasttext", "vocabulary": 40}, vocabulary=30) == 40
    assert embedding_rows({"name": "fasttext", "vocabulary": "40"}) == 40
    assert embedding_rows("fasttext") == 98_635


def test_a_vocabulary_smaller_than_the_datas_is_refused():
    with pytest.raises(UsageError) as caught:
        build_network({"name": "fasttext", "vocabulary": 20}, (20,), 4, 0, vocabulary=30)
    assert str(caught.value) == "model 'fasttext': vocabulary = 20 is too small; the data has 30 tokens"


@pytest.mark.parametrize("name", ["fasttext", "textcnn"])
def test_a_module_of_texts_has_a_vector_for_every_token(name):
    module = MODELS.build(name, sample_shape=(20,), classes=4, vocabulary=30)
    build_network(module, (20,), 4, 0, vocabulary=30)
    with pytest.raises(UsageError) as caught:
        build_network(module, (20,), 4, 0, vocabulary=31)
    assert str(caught.value) == (
        "the data have tokens 0..30, but the model has vectors for 0..29 only; make it with vocabulary=31"
    )


def test_a_vocabulary_is_no_concern_of_models_that_have_none():
    with_one, without = (build_network("mlp", (20,), 4, 0, vocabulary=v) for v in (30, None))
    assert with_one.fingerprint == without.fingerprint


def test_a_registered_model_takes_the_sizes_it_names(registry):
    @registry.register("fixed")
    def fixed(classes: int = 3) -> nn.Module:
        """A table of six columns."""
        return nn.Sequential(nn.Flatten(), nn.Linear(6, classes))

    assert complete_spec("fixed") == {"name": "fixed"}
    network = build_network("fixed", (6,), 5, seed=0)
    state = network.start(torch.device("cpu"), torch.float32)
    assert network.logits(state, torch.zeros(2, 6), train=False).shape == (2, 5)
